package discovery_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/discovery"
)

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
