package discovery_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/discovery"
	"mooring/internal/fleet"
)

const (
	w1 = "10.0.0.1:8000"
	w2 = "10.0.0.2:8000"
	w3 = "10.0.0.3:8000"
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

func TestDrainingKeepsItsStateWhileProbesFail(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.Update("static", specs(w1))
		b.run()
		draining := specs(w1)
		draining[0].Drain = true
		b.Update("static", draining)
		b.wantState(w1, "draining")
		b.are(dead, w1)
		b.wait(10 * time.Second)
		b.wantState(w1, "draining")
		b.Update("static", specs(w1))
		b.wantState(w1, "unhealthy")
	})
}

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

func TestAReplacedWorkerIsAnotherWorker(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Grace: 30 * time.Second}, func(b *bubble) {
		b.Update("static", specs(w1, w2))
		b.run()
		b.Update("static", specs(w2, w3))
		b.wait(2 * publishGap)
		b.wantState(w1, "vanished")
		b.wantState(w2, "active")
		b.wantState(w3, "active")
		if b.worker(w1).ID == b.worker(w3).ID {
			b.t.Error("they have one id")
		}
	})
}

func TestARelistInAnotherOrderPublishesNothing(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Grace: 30 * time.Second}, func(b *bubble) {
		b.Update("static", specs(w1, w2, w3))
		b.run()
		before := b.Live().View()
		list := specs(w3, w1, w2)
		list[0].Group, list[0].Ranks, list[0].Models = fleet.DefaultName, 1, []string{fleet.DefaultName} // the defaults, spelt out
		b.Update("static", list)
		b.Update("file", nil)
		b.SetHealth(probing)
		b.wait(time.Minute)
		if b.Live().View() != before {
			b.t.Error("a view was published though nothing changed")
		}
	})
}

func TestAnUnrelatedChangeLeavesOthersAlone(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Grace: 30 * time.Second}, func(b *bubble) {
		b.Update("static", specs(w1, w2))
		b.run()
		b.wait(5 * time.Second)
		since := b.worker(w1).Since
		changed := specs(w1, w2)
		changed[1].Models = []string{"other"}
		b.Update("static", changed)
		b.Update("file", specs(w3))
		if w := b.worker(w1); w.State != fleet.Active || w.Since != since {
			b.t.Errorf("worker 1 is %v since %v", w.State, w.Since)
		}
		// A change that is not about where it is needs no new probe.
		if w := b.worker(w2); w.State != fleet.Active || !slices.Equal(w.Models, []string{"other"}) {
			b.t.Errorf("worker 2 is %v with models %v", w.State, w.Models)
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

func TestAnExplicitIDAtANewAddressIsTheSameWorkerMoved(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Grace: 30 * time.Second, Settle: time.Second}, func(b *bubble) {
		b.Update("static", []discovery.Spec{{ID: 7, Address: w1}})
		b.run()
		b.wantState(w1, "active")
		b.Update("static", []discovery.Spec{{ID: 7, Address: w2}})
		if n := len(b.Live().View().Workers()); n != 1 {
			b.t.Errorf("there are %d workers, want one", n)
		}
		b.wantState(w2, "unhealthy") // nothing is known of the new address
		b.wait(time.Second)
		b.wantState(w2, "active")
		if w := b.worker(w2); w.ID != 7 || w.Address != w2 {
			b.t.Errorf("it is %v at %s", w.ID, w.Address)
		}
	})
}

func TestAProbeOfAnEarlierAddressIsVoid(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.are(mute, w1)
		b.Update("static", []discovery.Spec{{ID: 7, Address: w1}})
		b.begin()
		b.wait(10 * time.Millisecond)
		b.Update("static", []discovery.Spec{{ID: 7, Address: w2}})
		<-b.Settled()
		b.wantState(w2, "active")
		b.wait(1500 * time.Millisecond) // the old probe times out
		b.wantState(w2, "active")
		b.wantMetric(`mooring_worker_probe_failures_total{cause="timeout"}`, 0)
	})
}

func TestAProbeOfAForgottenWorkerIsVoid(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) { // no grace
		b.are(mute, w1)
		b.Update("static", []discovery.Spec{{ID: 7, Address: w1}})
		b.begin()
		b.wait(10 * time.Millisecond)
		b.Update("static", nil)
		b.Update("static", []discovery.Spec{{ID: 7, Address: w2}})
		b.wait(1500 * time.Millisecond) // the old probe times out
		b.wantState(w2, "active")
		b.wantMetric(`mooring_worker_probe_failures_total{cause="timeout"}`, 0)
	})
}

func TestReportedConnectFailuresCountAsProbes(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.Update("static", specs(w1, w2))
		b.run()
		b.wait(time.Second)
		b.are(dead, w1)
		b.ConnectFailed(w1)
		b.ConnectFailed("10.9.9.9:1") // nobody's
		b.ConnectFailed("nonsense")
		synctest.Wait()
		// The report makes the next probe come at once, and that confirms it.
		b.wantState(w1, "unhealthy")
		b.wantState(w2, "active")
		b.wantMetric(`mooring_worker_probe_failures_total{cause="reported"}`, 1)

		// A report that the probe contradicts is forgiven, in Envoy's other
		// spelling of the address too.
		b.ConnectFailed("[::ffff:10.0.0.2]:8000")
		synctest.Wait()
		b.ConnectFailed(w2)
		b.wait(time.Second)
		b.wantState(w2, "active")
		b.wantMetric(`mooring_worker_probe_failures_total{cause="reported"}`, 3)
	})
}

func TestManyReportsCauseFewProbes(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.Update("static", specs(w1))
		b.run()
		before := len(b.probes(w1))
		for range 1000 {
			b.ConnectFailed(w1)
			b.wait(time.Millisecond)
		}
		if n := len(b.probes(w1)) - before; n > 5 {
			b.t.Errorf("1,000 reports in a second caused %d probes, want at most one in a tenth of the interval", n)
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

// publishGap is the least time between two views that time and probes cause.
const publishGap = 50 * time.Millisecond
