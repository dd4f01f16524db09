package discovery_test

import (
	"context"
	"testing"
	"time"

	"mooring/internal/discovery"
)

func TestFailuresAndPassesInARowDecide(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.Update("static", specs(w1))
		b.run()
		b.are(broken, w1)
		b.wait(2500 * time.Millisecond)
		b.wantState(w1, "active") // one failure
		b.wait(2 * time.Second)
		b.wantState(w1, "unhealthy") // two
		if since := b.worker(w1).Since.Sub(b.start); since < 4*time.Second || since > 4100*time.Millisecond {
			b.t.Errorf("unhealthy since %v, want the second failure", since)
		}
		b.wantLogged(`status 503`, 1)
		b.are(well, w1)
		b.wait(4 * time.Second)
		b.wantState(w1, "unhealthy") // two passes
		b.wait(2 * time.Second)
		b.wantState(w1, "active") // three
		b.wantMetric(`mooring_worker_probe_failures_total{cause="status"}`, 2)
	})
}

func TestTheIntervalIsBetweenTheStartsOfProbes(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.are(mute, w1) // each probe takes its timeout
		b.Update("static", specs(w1))
		b.run()
		b.wait(5 * time.Second)
		at := b.probes(w1)
		if len(at) != 4 || at[1]-at[0] != 2*time.Second || at[2]-at[1] != 2*time.Second {
			b.t.Errorf("it was probed at %v, want every 2s", at)
		}
	})
}

func TestAFlappingWorkerMovesItsSessionsAtMostOnce(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.Update("static", specs(w1))
		b.run()
		changes := 0
		state := b.worker(w1).State
		for i := range 40 { // pass, fail, fail, pass, fail, fail, ...
			b.are([]answer{well, broken, broken}[i%3], w1)
			b.wait(2 * time.Second)
			if now := b.worker(w1).State; now != state {
				state = now
				changes++
			}
		}
		if changes > 1 {
			b.t.Errorf("its state changed %d times", changes)
		}
	})
}

func TestWithoutProbingWhoeverIsListedIsActive(t *testing.T) {
	inBubble(t, discovery.Config{Grace: 30 * time.Second}, func(b *bubble) {
		b.Update("static", specs(w1, w2, w3))
		b.wantState(w1, "active") // before Run, too
		b.run()
		b.are(dead, w1)
		b.ConnectFailed(w1)
		b.ConnectFailed(w1)
		b.ConnectFailed(w1) // no probe could ever take it back
		b.wait(time.Minute)
		b.wantState(w1, "active")
		if n := len(b.probes(w1)); n != 0 {
			b.t.Errorf("it was probed %d times", n)
		}

		b.SetHealth(probing) // trusted until its probes fail
		b.wantState(w1, "active")
		b.wait(2500 * time.Millisecond)
		b.wantState(w1, "unhealthy")
		b.wantState(w2, "active")

		b.SetHealth(discovery.Health{})
		b.wantState(w1, "active")
		before := len(b.probes(w2))
		b.wait(time.Minute)
		if n := len(b.probes(w2)); n != before {
			b.t.Errorf("it was probed %d times after probing was turned off", n-before)
		}
	})
}

func TestANewIntervalHoldsAtOnce(t *testing.T) {
	inBubble(t, discovery.Config{Health: discovery.Health{Path: "/health", Interval: time.Hour}}, func(b *bubble) {
		b.Update("static", specs(w1))
		b.run()
		b.SetHealth(probing)
		b.wantState(w1, "active")
		b.wait(4100 * time.Millisecond)
		if n := len(b.probes(w1)); n != 4 {
			b.t.Errorf("it was probed %d times at %v, want at once and every 2s", n, b.probes(w1))
		}
	})
}

func TestRunEndsInTheMiddleOfAProbe(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.are(mute, w1)
		b.Update("static", specs(w1))
		ctx, cancel := context.WithCancel(b.t.Context())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		b.wait(100 * time.Millisecond)
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("Run: %v", err)
		}
		if took := time.Since(b.start); took != 100*time.Millisecond {
			b.t.Errorf("it ended after %v, want at once", took)
		}
		b.wantMetric(`mooring_worker_probe_failures_total{cause="timeout"}`, 0)
		if b.Run(b.t.Context()) == nil {
			b.t.Error("a second Run was accepted")
		}
	})
}
