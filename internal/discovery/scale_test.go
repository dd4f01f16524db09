package discovery_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mooring/internal/discovery"
	"mooring/internal/fleet"
)

// manyAddresses returns n addresses of workers.
func manyAddresses(n int) []string {
	addresses := make([]string, n)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("10.1.%d.%d:8000", i/250, i%250)
	}
	return addresses
}

func TestALargeFleetIsProbedEvenly(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		const n = 5000
		addresses := manyAddresses(n)
		b.Update("file", specs(addresses...))
		first, views := b.Live().View(), 0
		b.begin()
		for settled := false; !settled; {
			_, changed := b.Live().Snapshot()
			select {
			case <-changed:
				views++
			case <-b.Settled():
				settled = true
			}
		}
		if took := time.Since(b.start); took > 2*time.Second {
			b.t.Errorf("it took %v to settle, want an interval at most", took)
		}
		if views > 50 {
			b.t.Errorf("%d workers that came up caused %d views, want one in 50 ms at most", n, views)
		}
		active := 0
		for _, w := range b.Live().View().Workers() {
			if w.State == fleet.Active {
				active++
			}
		}
		if active != n || b.Live().View() == first {
			b.t.Errorf("%d workers are active, want %d", active, n)
		}
		b.wait(4 * time.Second)
		perTenth := make(map[time.Duration]int)
		for _, a := range addresses {
			times := b.probes(a)
			if len(times) < 2 || times[1]-times[0] != 2*time.Second {
				b.t.Fatalf("%s was probed at %v, want every 2s", a, times)
			}
			perTenth[times[1]/(100*time.Millisecond)]++
		}
		for tenth, probes := range perTenth {
			if probes > 2*n/20 {
				b.t.Errorf("%d of %d probes were in the tenth of a second at %v", probes, n, tenth*100*time.Millisecond)
			}
		}
	})
}

func TestProbesInFlightAreBounded(t *testing.T) {
	inBubble(t, discovery.Config{Health: probing}, func(b *bubble) {
		const n = 2000
		addresses := manyAddresses(n)
		silent, rest := addresses[:n-100], addresses[n-100:]
		b.are(mute, silent...) // half of the network is gone
		b.Update("file", specs(addresses...))
		b.run()
		if most := b.mostInFlight(); most != 512 {
			b.t.Errorf("%d probes were in flight at once, want to see the bound of 512 reached and kept", most)
		}
		if took := time.Since(b.start); took > 5*time.Second {
			b.t.Errorf("it took %v to settle", took)
		}
		b.wait(time.Minute)
		for _, a := range rest { // the mute ones are slow to probe, but starve nobody
			b.wantState(a, "active")
			if n := len(b.probes(a)); n < 12 {
				b.t.Fatalf("%s was probed %d times in a minute", a, n)
			}
		}
		late := slices.ContainsFunc(rest, func(a string) bool { return len(b.probes(a)) < 30 })
		if !late {
			b.t.Error("no probe was late, so this test shows nothing")
		}
	})
}

func TestMassChangesAreSummedUpInTheLog(t *testing.T) {
	inBubble(t, discovery.Config{Grace: time.Minute}, func(b *bubble) {
		b.Update("file", specs(manyAddresses(1000)...))
		b.wantLogged("a worker's state changed", 0)
		b.wantLogged("many workers' states changed", 2) // new, and active
		b.wantMetric(`mooring_workers{state="active"}`, 1000)
	})
}
