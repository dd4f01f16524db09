package routing

import (
	"slices"
	"sync"

	"mooring/internal/fleet"
)

// load counts this replica's live requests per target. A choice and its count
// are one step, so that many choices at once never all see the same idle worker.
type load struct {
	mu struct {
		sync.Mutex
		live map[fleet.Target]int // > 0; absent at zero, so it is bounded by live requests
	}
}

func newLoad() *load {
	l := &load{}
	l.mu.live = make(map[fleet.Target]int)
	return l
}

// add counts one more live request on t.
func (l *load) add(t fleet.Target) {
	l.mu.Lock()
	l.mu.live[t]++
	l.mu.Unlock()
}

// done takes back what add or leastLoaded counted.
func (l *load) done(t fleet.Target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.live[t]--; l.mu.live[t] <= 0 {
		delete(l.mu.live, t)
	}
}

// of returns the live requests of t.
func (l *load) of(t fleet.Target) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.live[t]
}

// leastLoaded counts one live request on the candidate with the fewest and
// returns it. Ties break by a hash of (key, target): that spreads keys evenly
// and makes all replicas with equal load agree. False if there is no candidate.
func (l *load) leastLoaded(key string, candidates []fleet.Target) (fleet.Target, bool) {
	if len(candidates) == 0 {
		return fleet.Target{}, false
	}
	seed := hashString(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	best := slices.MinFunc(candidates, func(a, b fleet.Target) int {
		if d := l.ofRankLocked(a) - l.ofRankLocked(b); d != 0 {
			return d
		}
		return compareTies(seed, a, b)
	})
	l.mu.live[best]++
	return best, true
}

// ofRankLocked counts what runs on a rank: its own requests and those that were
// sent to its worker without naming a rank, any of which may run here.
func (l *load) ofRankLocked(t fleet.Target) int {
	return l.mu.live[t] + l.mu.live[fleet.WorkerOnly(t.Worker)]
}
