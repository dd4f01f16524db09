package main

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	vigilTick = 100 * time.Millisecond
	// sleepLimit is how long a process may have been stopped and still be taken to
	// know what its peers know.
	sleepLimit = 3 * time.Second
)

// vigil notices that the process was stopped, by its own ticks that did not come.
// Make it with newVigil.
type vigil struct {
	epoch time.Time
	last  atomic.Int64 // tick, in nanoseconds since epoch
}

func newVigil() *vigil { return &vigil{epoch: time.Now()} }

// awake reports whether the process has not been stopped for long, or has got
// over it. Safe for concurrent use.
func (v *vigil) awake() bool {
	return time.Since(v.epoch)-time.Duration(v.last.Load()) < sleepLimit
}

// run ticks until ctx ends. After a long stop it calls woken, and says that the
// process is awake when that returns.
func (v *vigil) run(ctx context.Context, woken func(context.Context)) {
	ticker := time.NewTicker(vigilTick)
	defer ticker.Stop()
	for {
		if !v.awake() {
			woken(ctx)
		}
		v.last.Store(int64(time.Since(v.epoch)))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
