package discovery_test

import (
	"slices"
	"testing"
	"time"

	"mooring/internal/discovery"
	"mooring/internal/fleet"
)

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
