package discovery_test

import (
	"testing"
	"time"

	"mooring/internal/discovery"
)

func TestARemovedWorkerIsRememberedForTheGrace(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Grace: 30 * time.Second}, func(b *bubble) {
		b.Update("static", specs(w1, w2, w3))
		b.run()
		b.Update("static", specs(w1, w2))
		b.wantState(w3, "vanished")
		at := time.Now()
		b.wait(29 * time.Second)
		b.wantState(w3, "vanished")
		if n := len(b.probes(w3)); n != 1 {
			b.t.Errorf("it was probed %d times, want no more once it had vanished", n)
		}
		b.Update("static", specs(w1, w2, w3)) // within the grace: as it was
		b.wantState(w3, "active")
		b.wait(100 * time.Millisecond)
		if n := len(b.probes(w3)); n != 2 {
			b.t.Errorf("it was probed %d times, want once more at once", n)
		}
		b.Update("static", specs(w1, w2))
		gone := b.worker(w3)
		if gone.Since.Before(at) {
			b.t.Error("the grace was not begun anew")
		}
		b.wait(30*time.Second - time.Nanosecond - time.Since(gone.Since))
		b.wantState(w3, "vanished")
		b.wait(publishGap)
		b.wantState(w3, "")
		b.Update("static", specs(w1, w2, w3)) // after it: a worker never seen before
		b.wantState(w3, "unhealthy")
	})
}

func TestWithoutGraceARemovedWorkerIsForgottenAtOnce(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.Update("static", specs(w1))
		b.run()
		b.Update("static", nil)
		b.wantState(w1, "")
		b.wait(10 * time.Second)
		if n := len(b.probes(w1)); n != 1 {
			b.t.Errorf("it was probed %d times", n)
		}
	})
}
