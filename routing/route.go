package routing

import (
	"sync/atomic"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// Route is a decision in force: where one request goes, the session lease that
// it holds and the load that it is. Its fields are not changed after Route
// returned it; Unload and Release are safe from any goroutine.
type Route struct {
	Target    fleet.Target
	Address   string // the worker's destination
	Ranks     uint32 // how many ranks the worker has
	Reason    Reason
	Partition fleet.Partition // its Model is "" with reason NoModel
	Session   string          // what it is bound under; "" for none

	Candidates int // how many targets the choice was made among; 0 if none had to be made

	router   *Router
	lease    affinity.Lease // zero for an unpinned request
	counted  atomic.Bool    // whether the request is in the load
	released atomic.Bool
}

// occupy makes target, which already counts one more live request, rt's own.
func (rt *Route) occupy(view *fleet.View, target fleet.Target, reason Reason) {
	rt.Target, rt.Reason = target, reason
	if w, ok := view.Worker(target.Worker); ok {
		rt.Address, rt.Ranks = w.Address, w.Ranks
	}
	rt.counted.Store(true)
}

// Unload takes the request out of the load figures while its lease stays: for
// requests whose end may never be reported.
func (rt *Route) Unload() {
	if rt.counted.CompareAndSwap(true, false) {
		rt.router.load.done(rt.Target)
	}
}

// Release ends the route: the request is over, in the way that outcome says.
// Only the first call counts.
func (rt *Route) Release(outcome affinity.Outcome) {
	if !rt.released.CompareAndSwap(false, true) {
		return
	}
	rt.Unload()
	rt.lease.Release(outcome)
}
