package replication

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// BenchmarkTraffic is what one session's requests cost on the wire, ten seconds
// each and ten seconds apart, by our rule and by the base's of two events per
// request. Digests are not counted: they do not depend on requests.
func BenchmarkTraffic(b *testing.B) {
	for _, turns := range []int{1, 10, 100} {
		b.Run(fmt.Sprint("turns=", turns), func(b *testing.B) {
			var messages, bytes int
			for b.Loop() {
				messages, bytes = sessionTraffic(b, turns)
			}
			e := BindingEvent{ModelName: benchPart.Model, RoutingGroup: benchPart.Group, SessionID: "conversation-1", WorkerID: 7, Sequence: 1 << 60, WriterID: 1 << 63}
			base := len(TopicV2) + len(AppendEvent(nil, &e))
			n := float64(turns)
			b.ReportMetric(float64(messages)/n, "messages/request")
			b.ReportMetric(float64(bytes)/n, "bytes/request")
			b.ReportMetric(2, "base-messages/request")
			b.ReportMetric(float64(2*base), "base-bytes/request")
		})
	}
}

func sessionTraffic(b *testing.B, turns int) (messages, bytes int) {
	core, table := newBenchCore(b, 1, 10)
	now := time.Now()
	pass := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); now = now.Add(time.Second) {
			for _, m := range core.Flush(now) {
				if m.Topic == TopicV2 {
					messages++
					bytes += len(m.Topic) + len(m.Payload)
				}
			}
		}
	}
	for range turns {
		l, err := table.Acquire(b.Context(), "conversation-1", fleet.Target{})
		if err == nil {
			if _, bound := l.Target(); !bound {
				err = l.Bind(fleet.OnRank(7, 1))
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		pass(10 * time.Second)
		l.Release(affinity.Completed)
		pass(10 * time.Second)
	}
	pass(affinity.MaxTTL / 8760) // an hour: what is still due
	return messages, bytes
}

// BenchmarkHit is one request of a bound session, with nobody to publish to and
// with a replica that does.
func BenchmarkHit(b *testing.B) {
	for _, publishes := range []bool{false, true} {
		for _, goroutines := range []int{1, 4} {
			b.Run(fmt.Sprintf("publishes=%v/goroutines=%d", publishes, goroutines), func(b *testing.B) {
				const sessions = 65_536
				core, table := newBenchCore(b, 1, sessions)
				if !publishes {
					core.sink = nil
				}
				names := make([]string, sessions)
				for i := range names {
					names[i] = benchEvent(i).Session
					table.Apply(benchEvent(i))
				}
				hit := func(i int) {
					l, err := table.Acquire(b.Context(), names[i*7919%sessions], fleet.Target{})
					if err != nil {
						b.Error(err)
					}
					l.Release(affinity.Completed)
				}
				for i := range sessions {
					hit(i)
				}
				if publishes {
					core.Flush(time.Now())
				}
				b.ResetTimer()
				b.SetParallelism(goroutines)
				b.RunParallel(func(pb *testing.PB) {
					for i := rand.Int(); pb.Next(); i++ {
						hit(i & (1<<40 - 1))
					}
				})
			})
		}
	}
}

// BenchmarkIdle is what the runner does each time that it wakes for nothing.
func BenchmarkIdle(b *testing.B) {
	b.ReportAllocs()
	core, _ := newBenchCore(b, 1, 1000)
	now := time.Now()
	for b.Loop() {
		core.Tick(now)
		core.Flush(now)
	}
}
