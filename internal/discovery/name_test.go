package discovery_test

import (
	"testing"
	"time"

	"mooring/internal/discovery"
	"mooring/internal/fleet"
)

const named = "worker.example:8000"

func TestANameIsResolvedAndKeepsItsID(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Settle: time.Second}, func(b *bubble) {
		b.resolvesTo("worker.example", "2001:db8::1", "10.0.0.2", "10.0.0.1", "0.0.0.0")
		b.Update("static", specs(named))
		b.run()
		w := b.worker(named)
		if w.State != fleet.Active || w.Address != w1 || w.ID != fleet.DeriveWorkerID(named) {
			b.t.Errorf("it is %v at %q with id %v, want active at the lowest IPv4 address", w.State, w.Address, w.ID)
		}
		b.wantLogged("several addresses", 1)

		b.wait(6 * time.Second) // the second lookup comes sooner: before the first, the worker was not well
		b.resolvesTo("worker.example", "10.0.0.3")
		b.wait(29100 * time.Millisecond)
		if w := b.worker(named); w.Address != w3 || w.State != fleet.Unhealthy || w.ID != fleet.DeriveWorkerID(named) {
			b.t.Errorf("it is %v at %q with id %v, want the same worker unhealthy at its new address", w.State, w.Address, w.ID)
		}
		b.wait(time.Second + publishGap)
		b.wantState(named, "active")
	})
}

func TestALookupThatFailsKeepsTheLastAddress(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.resolvesTo("worker.example", "10.0.0.1")
		b.Update("static", specs(named))
		b.run()
		b.resolvesTo("worker.example")
		b.wait(2 * time.Minute)
		if w := b.worker(named); w.State != fleet.Active || w.Address != w1 {
			b.t.Errorf("it is %v at %q", w.State, w.Address)
		}
		b.wantMetric("mooring_worker_lookup_failures_total", 4)
		b.wantLogged("does not resolve", 1)
	})
}

func TestANameThatNeverResolvedIsUnhealthy(t *testing.T) {
	inBubble(t, discovery.Config{Settle: time.Second}, func(b *bubble) { // even without probing
		b.Update("static", specs(named))
		b.run()
		b.wantState(named, "unhealthy")
		b.wantLogged("no such host", 1)
		b.resolvesTo("worker.example", "10.0.0.1")
		b.wait(5*time.Second + publishGap)
		b.wantState(named, "unhealthy") // Envoy is learning the address
		b.wait(time.Second)
		b.wantState(named, "active")
	})
}

func TestTheNameOfAFailingWorkerIsResolvedSooner(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.resolvesTo("worker.example", "10.0.0.1")
		b.Update("static", specs(named))
		b.run()
		b.wait(time.Second)
		b.are(dead, w1) // its pod moved
		b.resolvesTo("worker.example", "10.0.0.2")
		b.wait(4 * time.Second) // two failures
		if w := b.worker(named); w.State != fleet.Active || w.Address != w2 {
			b.t.Errorf("it is %v at %q, want active at the new address", w.State, w.Address)
		}
	})
}

func TestAVanishedNameIsNotResolved(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing, Grace: time.Hour}, func(b *bubble) {
		b.resolvesTo("worker.example", "10.0.0.1")
		b.Update("static", specs(named, w2, w3))
		b.run()
		b.Update("static", specs(w2, w3))
		b.resolvesTo("worker.example")
		before := b.lookups()
		b.wait(10 * time.Minute)
		if n := b.lookups() - before; n != 0 {
			b.t.Errorf("it was looked up %d times", n)
		}

		b.Update("static", specs(named, w2, w3)) // back: as it was, and both are asked again
		b.wantState(named, "active")
		b.wait(10 * time.Millisecond)
		b.wantMetric("mooring_worker_lookup_failures_total", 1)
		if n := len(b.probes(w1)); n != 2 {
			b.t.Errorf("it was probed %d times", n)
		}
	})
}

func TestAWorkerWithAnAddressNeedsItsNameNoMore(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.resolvesTo("worker.example", "10.0.0.1")
		b.names.takes = 100 * time.Millisecond
		b.Update("static", []discovery.Spec{{ID: 7, Address: named}})
		b.begin()
		b.wait(50 * time.Millisecond) // the lookup is under way
		b.Update("static", []discovery.Spec{{ID: 7, Address: w2}})
		b.wait(10 * time.Minute)
		if w := b.worker(w2); w == nil || w.Address != w2 || w.State != fleet.Active {
			b.t.Errorf("it is %+v, want it active at the address it was given", w)
		}
		b.Update("static", []discovery.Spec{{ID: 7, Address: named}})
		b.wait(time.Second)
		if w := b.worker(named); w.Address != w1 || w.State != fleet.Active {
			b.t.Errorf("it is %v at %q, want active where its name points", w.State, w.Address)
		}
		before := b.lookups()
		b.Update("static", []discovery.Spec{{ID: 7, Address: w2}})
		b.wait(10 * time.Minute)
		if n := b.lookups() - before; n != 0 {
			b.t.Errorf("its former name was looked up %d times", n)
		}
	})
}

func TestAResolverThatHangsIsWaitedForOnce(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		b.names.takes = time.Hour
		list := specs(w1, named)
		for _, a := range manyAddresses(100) {
			list = append(list, discovery.Spec{Address: "x-" + a})
		}
		b.Update("static", list)
		b.run()
		if took := time.Since(b.start); took > 25*time.Second {
			b.t.Errorf("it took %v to settle, want a few timeouts of lookups", took)
		}
		if n := len(b.probes(w1)); n < 5 {
			b.t.Errorf("the worker that needs no name was probed %d times meanwhile", n)
		}
		b.wantState(w1, "active")
		b.wantState(named, "unhealthy")
	})
}
