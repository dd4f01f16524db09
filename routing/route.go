package routing

import (
	"slices"
	"sync/atomic"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// Route is a decision in force: where one request goes, the session lease that
// it holds and the load that it is. Its fields are not changed after Route
// returned it; Began, Unload, Release and ReleaseServed are safe from any goroutine.
type Route struct {
	Target    fleet.Target
	Address   string // the worker's destination
	Ranks     uint32 // how many ranks the worker has
	Reason    Reason
	Partition fleet.Partition // its Model is "" with reason NoModel
	Session   string          // what it is bound under; "" for none

	// Of a choice among Candidates targets; all 0 if none had to be made.
	Candidates int
	Overlap    int     // blocks of the prompt that the target is known to hold
	Cost       float64 // in blocks; 0 if the choice was made by load alone

	router   *Router
	lease    affinity.Lease // zero for an unpinned request
	held     *held          // what its prompt counts as in the load; nil if that is not known
	counted  atomic.Bool    // whether the request is in the load
	released atomic.Bool
}

// occupy makes p's target, which already counts one more live request, rt's own.
func (rt *Route) occupy(p picked, reason Reason) {
	if p.blind && reason == New {
		reason = NoTokens
	}
	rt.Target, rt.Reason = p.target, reason
	rt.Candidates, rt.Overlap, rt.Cost, rt.held = p.candidates, p.overlap, p.cost, p.held
	if w, ok := p.view.Worker(p.target.Worker); ok {
		rt.Address, rt.Ranks = w.Address, w.Ranks
	}
	rt.counted.Store(true)
}

// Unload takes the request out of the load figures while its lease stays: for
// requests whose end may never be reported.
func (rt *Route) Unload() {
	if rt.counted.CompareAndSwap(true, false) {
		rt.router.load.done(rt.Target, rt.held)
	}
}

// Began says that the response has begun: the prompt is computed, and is work for
// the worker no more. Where nobody says so, that is taken to be after a while.
func (rt *Route) Began() {
	if rt.held != nil && rt.counted.Load() {
		rt.router.load.computed(rt.Target, rt.held)
	}
}

// Release ends the route: the request is over, in the way that outcome says.
// Only the first call of Release or ReleaseServed counts.
func (rt *Route) Release(outcome affinity.Outcome) { rt.ReleaseServed(outcome, "") }

// ReleaseServed is Release by somebody who knows which address served the
// request, written as Address is; "" if that is not known. If a worker answered
// that was not picked, a soft binding follows the request there, and so does a
// hard one whose own worker has gone since the pick. A request that failed, or
// reached nobody, moves nothing.
func (rt *Route) ReleaseServed(outcome affinity.Outcome, served string) {
	if !rt.released.CompareAndSwap(false, true) {
		return
	}
	rt.Unload()
	answered := outcome == affinity.Completed || outcome == affinity.ClientAborted
	if answered && served != "" && served != rt.Address {
		rt.follow(served)
	}
	rt.lease.Release(outcome)
}

// follow tells the session table that the worker at an address served the request.
func (rt *Route) follow(served string) {
	if _, bound := rt.lease.Target(); !bound {
		return
	}
	view := rt.router.live.View()
	w, ok := view.WorkerAt(served)
	if !ok || !slices.Contains(view.Members(rt.Partition), w) {
		return // nobody whom a session of this partition can be bound to
	}
	target := rt.servedBy(w)
	if rt.lease.Check(target) != nil {
		return // a hard binding stays with its worker while that lives
	}
	// An error means that the session has been bound elsewhere meanwhile, which
	// stands; the table counts it.
	_ = rt.lease.Bind(target)
}

// servedBy returns what of w served the request. Whoever dispatches to another
// worker than the picked one passes the request on as it is, with the picked
// rank in its header.
func (rt *Route) servedBy(w *fleet.Worker) fleet.Target {
	switch {
	case w.Ranks == 1:
		return fleet.OnRank(w.ID, 0)
	case rt.Ranks > 1 && rt.Target.Ranked && rt.Target.Rank < w.Ranks:
		return fleet.OnRank(w.ID, rt.Target.Rank)
	default:
		return fleet.WorkerOnly(w.ID)
	}
}
