package feed

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Engines that repeat one batch, or send none, every so often, hold the line no
// longer than silent ones: a healthy feed behind 60 of them has its turn soon.
func TestDrippingReplays(t *testing.T) {
	for name, drip := range map[string][][]byte{
		"batch":     {nil, make([]byte, 8), {0x93}},
		"misshapen": {nil, []byte("short"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.replays = NewReplayLimit(4)
				defer r.stop()
				for i := range 60 {
					e := r.engine(fmt.Sprint(i), uint64(i+2), 0, true, 2)
					e.feed.replayer = func(ctx context.Context, start uint64, emit func(uint64, []byte) error) error {
						return e.drip(ctx, start, drip, emit)
					}
					e.connect()
				}
				time.Sleep(time.Second)
				e := r.engine("healthy", 1, 0, true, 2)
				e.publish(block(t, 0), true)
				begun := time.Now()
				e.connect()
				for e.feed.Details().State != Following {
					time.Sleep(time.Second)
					synctest.Wait()
				}
				if took := time.Since(begun); took > 60/4*7*time.Second {
					t.Errorf("took %s", took)
				}
			})
		})
	}
}

// drip is a replayer whose engine sends message every 2 s.
func (e *engine) drip(ctx context.Context, start uint64, message [][]byte, emit func(uint64, []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return e.feed.drain(start, func() ([][]byte, error) {
		select {
		case <-time.After(2 * time.Second):
			return message, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, cancel, emit)
}
