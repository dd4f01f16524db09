package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestVigilNoticesALongStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVigil()
		ctx, cancel := context.WithCancel(t.Context())
		woken, over := 0, make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			v.run(ctx, func(context.Context) { woken++; <-over })
		}()
		time.Sleep(time.Minute)
		if woken != 0 || !v.awake() {
			t.Fatalf("woken %d times, awake %v, without a stop", woken, v.awake())
		}
		v.last.Add(-int64(sleepLimit)) // as if that had passed without a tick
		if v.awake() {
			t.Error("awake before it has got over the stop")
		}
		time.Sleep(vigilTick)
		synctest.Wait()
		if woken != 1 || v.awake() {
			t.Errorf("woken %d times, awake %v; want once, and not awake until that is over", woken, v.awake())
		}
		close(over)
		synctest.Wait()
		if !v.awake() {
			t.Error("not awake afterwards")
		}
		cancel()
		<-done
	})
}
