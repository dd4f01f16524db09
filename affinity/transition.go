package affinity

import (
	"time"

	"mooring/internal/fleet"
)

// instant is monotonic time, counted from the making of the Resolver.
type instant time.Duration

// rules are the settings that transitions obey.
type rules struct {
	mode        Mode
	ttl         time.Duration
	initTimeout time.Duration
	whenGone    WhenGone
	grace       time.Duration // how long a worker that is not known here may still appear
}

// liveness answers what can be scheduled in one partition at one moment.
type liveness struct {
	view      *fleet.View
	partition fleet.Partition
}

func (l liveness) schedulable(t fleet.Target) bool {
	return l.view.IsSchedulable(l.partition, t)
}

// state is all that is known of one session: a binding, somebody's turn to
// choose one, or, while a session whose worker has gone is being re-bound, both.
// The zero state knows nothing. Its methods are the transitions: plain functions
// of the state, the time and their arguments.
//
// Invariant: leases > 0 only with a binding; revision <= newest.
type state struct {
	target   fleet.Target // zero: no binding
	version  version      // of the binding
	deadline instant      // when the binding ends, unless leases > 0
	leases   int32        // live uses of this incarnation of the binding
	revision uint32       // incarnation of the binding, which its leases carry
	newest   uint32       // newest incarnation that this state has given out
	arrived  instant      // when another replica's record became the binding; 0: it was made here
	unused   bool         // no request but the one that bound it is known to have had a lease
	turn     *turn        // nil: nobody is choosing
}

// turn is an initialiser's right to bind the session. The binding that it makes
// has the turn's revision.
type turn struct {
	revision uint32
	deadline instant
	known    version // of the session when the turn began
}

func (s *state) bound() bool { return !s.target.IsZero() }
func (s *state) empty() bool { return !s.bound() && s.turn == nil }

// passed says what time took from a state.
type passed struct{ lostTurn, expired bool }

// settle drops what has ended by now. All other transitions expect a state
// settled at the same now, so that for them expired is absent.
func (s *state) settle(now instant) (p passed) {
	if s.turn != nil && s.turn.deadline <= now {
		s.turn = nil
		p.lostTurn = true
	}
	if s.bound() && s.leases == 0 && s.deadline <= now {
		s.unbind()
		p.expired = true
	}
	return p
}

// due returns when settle may next find something to do; with live leases, the
// earliest moment at which the binding could end.
func (s *state) due(now instant, r *rules) instant {
	switch {
	case s.turn != nil && s.bound() && s.leases == 0:
		return min(s.turn.deadline, s.deadline)
	case s.turn != nil:
		return s.turn.deadline
	case s.leases > 0:
		return now + instant(r.ttl)
	default:
		return s.deadline
	}
}

// finding is what an acquiring request met.
type finding uint8

const (
	foundBinding   finding = iota // a live binding, and a lease on it was taken
	foundNothing                  // no binding: the request has the turn now
	foundGone                     // a binding to a worker that has gone: the request has the turn now
	foundTurn                     // somebody else has the turn
	refusedGone                   // a binding to a worker that has gone, and the rules say not to re-bind
	refusedUnknown                // a binding to a worker that this replica has yet to hear of
	refusedTarget                 // the requested target cannot be scheduled
	refusedOther                  // the requested target contradicts the live binding
)

// acquire takes a lease or the turn for a request that asks for the given target
// (zero: any). Liveness comes first: a binding to a worker that has gone
// contradicts nobody. The binding stays beside the turn until that ends, so that
// an initialiser who gives up leaves the session where it was.
func (s *state) acquire(now instant, requested fleet.Target, alive liveness, r *rules) finding {
	switch {
	case s.turn != nil:
		return foundTurn
	case s.bound() && alive.schedulable(s.target):
		if !admitsRequest(s.target, requested) {
			return refusedOther
		}
		s.lease()
		return foundBinding
	case s.bound() && s.mayAppear(now, alive, r.grace) && !alive.schedulable(requested):
		return refusedUnknown
	case s.bound() && r.whenGone != Rebind && !alive.schedulable(requested):
		return refusedGone
	case !requested.IsZero() && !alive.schedulable(requested):
		return refusedTarget
	}
	s.newest++
	s.turn = &turn{revision: s.newest, deadline: now + instant(r.initTimeout), known: s.version}
	if s.bound() {
		return foundGone
	}
	return foundNothing
}

// lease adds a use to the binding.
func (s *state) lease() {
	s.leases++
	s.unused = false
}

// hasTurn reports whether the turn is that of revision.
func (s *state) hasTurn(revision uint32) bool {
	return s.turn != nil && s.turn.revision == revision
}

// isBound reports whether the binding is the incarnation of revision: a lease of
// any other counts for nothing here.
func (s *state) isBound(revision uint32) bool {
	return s.bound() && s.revision == revision
}

// bindTurn ends the turn with a new binding and one lease on it.
func (s *state) bindTurn(now instant, target fleet.Target, v version, r *rules) {
	revision := s.turn.revision
	s.turn = nil
	s.bind(now, revision, target, v, r)
	s.leases, s.unused = 1, true
}

// bindAfresh binds without a turn, with one lease: a request that finds neither
// a turn nor a live binding after its own worker has gone.
func (s *state) bindAfresh(now instant, target fleet.Target, v version, r *rules) {
	s.newest++
	s.bind(now, s.newest, target, v, r)
	s.leases, s.unused = 1, true
}

// join ends somebody else's turn with a binding: one lease for the joiner, one
// kept for the initialiser, whose revision it has.
func (s *state) join(now instant, target fleet.Target, v version, r *rules) {
	revision := s.turn.revision
	s.turn = nil
	s.bind(now, revision, target, v, r)
	s.leases, s.unused = 2, false
}

// pin binds by an operator's order. Leases stay and count; a turn ends, since
// there is nothing left to choose.
func (s *state) pin(now instant, target fleet.Target, v version, r *rules) {
	s.turn = nil
	if !s.bound() {
		s.newest++
		s.revision = s.newest
	}
	leases := s.leases
	s.bind(now, s.revision, target, v, r)
	s.leases, s.unused = leases, false
}

func (s *state) bind(now instant, revision uint32, target fleet.Target, v version, r *rules) {
	s.target, s.version, s.revision = target, v, revision
	s.deadline, s.arrived = now+instant(r.ttl), 0
}

// rebind moves a soft binding. Neither its life nor its leases change.
func (s *state) rebind(target fleet.Target, v version) {
	s.target, s.version, s.arrived = target, v, 0
}

// unbind removes the binding, whatever leases it has.
func (s *state) unbind() {
	s.target, s.version, s.deadline = fleet.Target{}, version{}, 0
	s.leases, s.unused, s.arrived = 0, false, 0
}

// drop ends the initialiser's turn, or the lease that a joiner kept for it, or a
// lease whose request was not served: none of them is a use.
func (s *state) drop(revision uint32) {
	switch {
	case s.hasTurn(revision):
		s.turn = nil
	case s.isBound(revision) && s.leases > 0:
		s.leases--
	}
}

// ending is what the release of a lease did.
type ending uint8

const (
	endedStale   ending = iota // the lease's incarnation was gone: nothing
	endedUse                   // the binding has its full life again
	endedUnsent                // the request was no use: the life is what it was
	endedBinding               // the first request never got there: unbound
)

// release ends a lease. A binding whose very first request never reached the
// worker, and which nobody else has used, is void: there is no cache to go to.
func (s *state) release(now instant, revision uint32, o Outcome, r *rules) ending {
	switch {
	case !s.isBound(revision) || s.leases == 0:
		return endedStale
	case o == NeverSent && s.unused:
		s.unbind()
		return endedBinding
	}
	s.leases--
	if o == NeverSent {
		return endedUnsent
	}
	s.deadline = max(s.deadline, now+instant(r.ttl))
	return endedUse
}
