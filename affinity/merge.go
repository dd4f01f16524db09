package affinity

import (
	"cmp"
	"math"
	"time"

	"mooring/internal/fleet"
)

// compare orders versions: the higher one is newer.
func (v version) compare(w version) int {
	return cmp.Or(cmp.Compare(v.sequence, w.sequence), cmp.Compare(v.writer, w.writer))
}

// record is a binding as another replica tells it.
type record struct {
	target  fleet.Target
	version version
	life    time.Duration // from now on; above 0
}

// after returns the instant that is d after now, or the end of time.
func after(now instant, d time.Duration) instant {
	if d > math.MaxInt64-time.Duration(now) {
		return math.MaxInt64
	}
	return now + instant(d)
}

// merge takes a replicated binding into a settled state. Of two bindings the
// higher (version, target) wins; of two equal ones the later deadline. So merges
// are a join: their order, and how often each comes, makes no difference.
// Leases stay and count on whatever the session is bound to now.
//
// A record that comes while somebody is choosing is merged all the same and
// stays beside the turn; bindTurn's caller asks keptWins.
func (s *state) merge(now instant, rec record) Applied {
	deadline := after(now, rec.life)
	if !s.bound() {
		s.newest++
		s.revision = s.newest
		s.takeRecord(now, rec, deadline)
		return Inserted
	}
	order := rec.version.compare(s.version)
	tie := order == 0
	if tie {
		order = rec.target.Compare(s.target)
	}
	switch {
	case order > 0:
		s.takeRecord(now, rec, deadline)
		if tie {
			return Tied
		}
		return Replaced
	case order == 0:
		// Another replica tells this version because a request of its own used it,
		// or, which is the safer error, in a repair.
		s.deadline, s.unused = max(s.deadline, deadline), false
		return Refreshed
	case tie:
		return Tied
	default:
		return Stale
	}
}

func (s *state) takeRecord(now instant, rec record, deadline instant) {
	s.target, s.version, s.deadline = rec.target, rec.version, deadline
	s.arrived, s.unused = max(now, 1), false
}

// keptWins reports whether a record that came during the turn takes the place
// of the choice: it is newer than what was known when the turn began, and it can
// be used here. Then nothing is minted, so that of two replicas that choose at
// once one keeps its session where it is.
func (s *state) keptWins(alive liveness) bool {
	return s.bound() && s.version.compare(s.turn.known) > 0 && alive.schedulable(s.target)
}

// yieldTurn ends the turn in favour of the record that came meanwhile, with a
// lease on it.
func (s *state) yieldTurn() {
	s.turn = nil
	s.lease()
}

// mayAppear reports whether the binding came from another replica less than
// grace ago and names a worker that is not known here at all: this replica's
// discovery may only be behind.
func (s *state) mayAppear(now instant, alive liveness, grace time.Duration) bool {
	if s.arrived == 0 || now >= after(s.arrived, grace) {
		return false
	}
	_, known := alive.view.Worker(s.target.Worker)
	return !known
}
