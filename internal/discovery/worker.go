package discovery

import (
	"math/bits"
	"time"

	"mooring/internal/fleet"
)

// worker is what discovery knows of one worker. Owned by Discovery.mu.
type worker struct {
	listing
	lifecycle

	address       string    // destination; "": its name was never resolved
	question      uint64    // what its probes are asked now, 0: nothing; the answer to another question is void
	probed        time.Time // when its last probe began
	lookupFailing bool      // its name could not be resolved when last asked
	lastFailure   error     // of its last failed probe, for the log
}

// inView returns the worker as the fleet sees it.
func (w *worker) inView() fleet.Worker {
	return fleet.Worker{
		ID: w.ID, Address: w.address, Name: w.Address,
		Models: w.Models, Adapters: w.Adapters, Group: w.Group, Ranks: w.Ranks,
		KVEvents: w.KVEvents, KVReplay: w.KVReplay, BlockSize: w.BlockSize,
		State: w.state, Since: w.since, Doubted: w.doubted,
	}
}

// share returns a part of span that is always the same for one worker and
// spreads the workers evenly over it. Ids may be small numbers in a row.
func share(id fleet.WorkerID, span time.Duration) time.Duration {
	const golden = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio
	part, _ := bits.Mul64(uint64(id)*golden, uint64(max(span, 0)))
	return time.Duration(part)
}
