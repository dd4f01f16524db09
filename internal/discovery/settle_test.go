package discovery_test

import (
	"testing"
	"time"

	"mooring/internal/discovery"
)

func TestFirstPassMakesAWorkerActive(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.are(dead, w2)
		b.are(mute, w3)
		b.Update("static", specs(w1, w2, w3))
		b.wantState(w1, "unhealthy")
		b.run()
		if took := time.Since(b.start); took < time.Second || took > 1100*time.Millisecond {
			b.t.Errorf("settled after %v, want the timeout of the probe of the mute worker", took)
		}
		b.wantState(w1, "active")
		b.wantState(w2, "unhealthy")
		b.wantState(w3, "unhealthy")
		b.wantMetric(`mooring_workers{state="active"}`, 1)
		b.wantMetric(`mooring_workers{state="unhealthy"}`, 2)
		b.wantMetric(`mooring_worker_probe_failures_total{cause="timeout"}`, 1)

		b.wait(10 * time.Second)
		b.are(well, w2)
		b.wait(2100 * time.Millisecond)
		b.wantState(w2, "active")
	})
}

func TestSettledShowsTheFirstRoundInTheView(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.Update("static", specs(w1, w2, w3))
		b.begin()
		<-b.Settled()
		for _, w := range []string{w1, w2, w3} {
			b.wantState(w, "active")
		}
		if took := time.Since(b.start); took > 10*time.Millisecond {
			b.t.Errorf("three workers took %v to settle", took)
		}
	})
}

func TestNobodyToWaitForIsSettledAtOnce(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		select {
		case <-b.Settled():
			b.t.Error("settled before Run")
		default:
		}
		b.run()
		if took := time.Since(b.start); took != 0 {
			b.t.Errorf("it took %v", took)
		}
	})
}

func TestAWorkerUnlistedInTheFirstRoundIsNotWaitedFor(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Grace: time.Minute}, func(b *bubble) {
		b.are(mute, w3)
		b.Update("static", specs(w1, w2, w3))
		b.begin()
		b.wait(500 * time.Millisecond)
		b.Update("static", specs(w1, w2))
		<-b.Settled()
		if took := time.Since(b.start); took != 500*time.Millisecond {
			b.t.Errorf("settled after %v, want as soon as the mute worker is unlisted", took)
		}
		b.wait(10 * time.Second)
		if n := len(b.probes(w3)); n != 1 {
			b.t.Errorf("it was probed %d times, want no more after the probe that was under way", n)
		}
	})
}

func TestALateWorkerWaitsUntilEnvoyKnowsIt(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Settle: time.Second}, func(b *bubble) {
		b.Update("static", specs(w1))
		b.run()
		b.wantState(w1, "active") // the first round doesn't wait
		b.Update("static", specs(w1, w2))
		listed := time.Now()
		b.wait(time.Second - time.Millisecond)
		b.wantState(w2, "unhealthy")
		b.wait(time.Millisecond)
		b.wantState(w2, "active")
		if since := b.worker(w2).Since.Sub(listed); since != time.Second {
			b.t.Errorf("active %v after it was listed, want 1s", since)
		}
	})
}
