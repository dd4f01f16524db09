package affinity

import "mooring/internal/fleet"

// admitsRequest reports whether a request that asked for the given target may
// use the bound one. Asking for nothing admits everything. A rank cannot be
// added to a worker-only binding, since that would narrow it for all others.
func admitsRequest(bound, requested fleet.Target) bool {
	switch {
	case requested.IsZero():
		return true
	case bound.Worker != requested.Worker:
		return false
	case !requested.Ranked:
		return true
	default:
		return bound == requested
	}
}

// admitsDispatch reports whether a hard binding allows a request to go to the
// dispatched target. A worker-only binding leaves the rank to the dispatcher; a
// ranked one needs exactly its rank.
func admitsDispatch(bound, dispatched fleet.Target) bool {
	if !bound.Ranked {
		return bound.Worker == dispatched.Worker
	}
	return bound == dispatched
}

// follow returns where a soft binding goes after a dispatch. A worker-only
// binding follows to the worker and stays worker-only. A ranked binding stays if
// the dispatch names no rank, even on another worker: which rank served is then
// unknown, and guessing one would bind the session where its cache is not.
func follow(bound, dispatched fleet.Target) fleet.Target {
	switch {
	case !bound.Ranked:
		return fleet.WorkerOnly(dispatched.Worker)
	case dispatched.Ranked:
		return dispatched
	default:
		return bound
	}
}
