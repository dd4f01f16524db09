package routing

import (
	"math"
	"sync"
	"time"

	"mooring/internal/fleet"
)

// load counts this replica's live requests per target, and the prompts of those
// whose blocks are known. A choice and its count are one step, so that many
// choices at once never all see the same idle worker.
type load struct {
	mu struct {
		sync.Mutex
		live map[fleet.Target]int      // > 0; absent at zero, so it is bounded by live requests
		bare int                       // of those, the ones without a rank
		work map[fleet.Target]*holding // of targets that were chosen for a prompt, or that gave figures
	}
}

func newLoad() *load {
	l := &load{}
	l.mu.live = make(map[fleet.Target]int)
	l.mu.work = make(map[fleet.Target]*holding)
	return l
}

// add counts one more live request on t.
func (l *load) add(t fleet.Target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(t, 1)
	l.raiseLocked(t)
}

// done takes back what add or choose counted.
func (l *load) done(t fleet.Target, held *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(t, -1)
	if held != nil {
		if h := l.mu.work[t]; h != nil {
			h.drop(held)
		}
	}
}

// countLocked counts n more live requests on t.
func (l *load) countLocked(t fleet.Target, n int) {
	if !t.Ranked {
		l.mu.bare += n
	}
	if n += l.mu.live[t]; n > 0 {
		l.mu.live[t] = n
	} else {
		delete(l.mu.live, t)
	}
}

// computed says that held's prompt has been computed: it is prompt work no more.
func (l *load) computed(t fleet.Target, held *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.mu.work[t]; h != nil {
		h.computed(held)
	}
}

// of returns the live requests of t.
func (l *load) of(t fleet.Target) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.live[t]
}

// choose weighs the rows, picks one and counts a live request with this prompt
// on it, in one step. It returns the winner's index, or -1 if all are full, and
// what done needs.
func (l *load) choose(c *choice) (winner int, counted *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.told {
		for i := range c.rows {
			l.sightLocked(&c.rows[i])
		}
	}
	if winner = l.weighLocked(c); winner < 0 {
		return winner, nil
	}
	best := &c.rows[winner]
	l.countLocked(best.target, 1)
	if c.prompt.known() {
		counted = l.holdingLocked(best.target).take(&c.prompt, best.overlap, c.now)
	}
	l.raiseLocked(best.target)
	return winner, counted
}

// preview is choose without counting or remembering anything.
func (l *load) preview(c *choice) (winner int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.weighLocked(c)
}

// weighLocked fills in the rows' work and cost and picks one.
func (l *load) weighLocked(c *choice) int {
	idlest := math.Inf(1)
	for i := range c.rows {
		row := &c.rows[i]
		row.work = l.standingLocked(row, c.now)
		row.full = c.limits != nil && c.limits.exceeded(row.work, row.figures, row.fresh)
		idlest = min(idlest, row.work.Prefill)
	}
	if c.prompt.known() {
		for i := range c.rows {
			row := &c.rows[i]
			row.standing = c.weights.cost(0, 0, Overlap{}, row.work).Total
			row.work.Decode += float64(c.prompt.blocks - l.mu.work[row.target].shared(&c.prompt))
			row.cost = c.weights.cost(c.prompt.blocks, idlest, row.overlap, row.work)
		}
	}
	return pick(c.rows, c.seed, c.prompt.known(), c.temperature)
}

// standingLocked returns what a row's target has to do without this request.
func (l *load) standingLocked(row *row, now time.Time) Work {
	h := l.mu.work[row.target]
	own := l.ofRankLocked(row.target)
	work := Work{Requests: float64(own)}
	then := sighting{at: row.figures.At, requests: own}
	if h != nil {
		h.expire(now)
		work.Prefill = float64(h.prefill)
		work.Decode = float64(h.inUse())
		then.blocks = h.inUse()
		if h.sight.seen.at.Equal(row.figures.At) {
			then = h.sight.seen
		}
	}
	if row.fresh > 0 {
		work.Requests += row.fresh * float64(max(0, row.figures.Running+row.figures.Waiting-then.requests))
		work.Decode += row.fresh * max(0, row.figures.KVUse*float64(row.figures.KVBlocks)-float64(then.blocks))
	}
	return work
}

// ofRankLocked counts what runs on a rank: its own requests and those that were
// sent to its worker without naming a rank, any of which may run here.
func (l *load) ofRankLocked(t fleet.Target) int {
	n := l.mu.live[t]
	if l.mu.bare > 0 {
		n += l.mu.live[fleet.WorkerOnly(t.Worker)]
	}
	return n
}

// maxHoldings is from how many targets on those that hold nothing are forgotten.
// With it, workers that come and go for ever leave nothing behind.
const maxHoldings = 4096

func (l *load) holdingLocked(t fleet.Target) *holding {
	h := l.mu.work[t]
	if h != nil {
		return h
	}
	if len(l.mu.work) >= maxHoldings {
		for other, h := range l.mu.work {
			if h.requests == 0 {
				delete(l.mu.work, other)
			}
		}
	}
	h = &holding{blocks: make(map[uint64]int32)}
	l.mu.work[t] = h
	return h
}
