package replication

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

var benchPart = fleet.Partition{Model: "llama-70b", Group: fleet.DefaultName}

// newBenchCore returns a replica with room for the given number of sessions,
// which publishes on v2 alone.
func newBenchCore(b testing.TB, id uint64, sessions int) (*Core, *affinity.Table) {
	b.Helper()
	live := fleet.NewLive(fleet.NewView([]fleet.Worker{{
		ID: 7, Address: "10.0.0.7:80", Models: []string{benchPart.Model}, Group: benchPart.Group, Ranks: 2, State: fleet.Active,
	}}))
	var core *Core
	resolver, err := affinity.NewResolver(live, affinity.Config{
		MaxSessions: sessions, WriterID: id, Publish: func(p fleet.Partition, ev affinity.Event) {
			if core.sink != nil {
				core.Local(p, ev)
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	if core, err = New(time.Now(), Config{Sessions: resolver, SenderID: id, WriterID: id}); err != nil {
		b.Fatal(err)
	}
	t, _ := resolver.Table(benchPart)
	return core, t
}

func benchEvent(i int) affinity.Event {
	return affinity.Event{Session: fmt.Sprint("conversation-", i), Target: fleet.OnRank(7, 1), Sequence: uint64(1 + i), WriterID: 42, Life: 30 * time.Minute}
}

func BenchmarkEvent(b *testing.B) {
	payload := unhex(b, rankedHex)
	e, err := DecodeEvent(payload)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = AppendEvent(buf[:0], &e)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeEvent(payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkApply is what one message costs that reached this replica: decoded and
// merged.
func BenchmarkApply(b *testing.B) {
	message := func(i int, topic string) Message {
		ms := uint64(1_800_000)
		e := BindingEvent{
			ModelName: benchPart.Model, RoutingGroup: benchPart.Group, SessionID: fmt.Sprint("conversation-", i), WorkerID: 7, Sequence: uint64(1 + i), WriterID: 42,
			SenderID: 9, SenderSeq: uint64(1 + i), TTLMillis: &ms,
		}
		return Message{Topic: topic, Payload: AppendEvent(nil, &e)}
	}
	for _, c := range []struct {
		name, topic string
		sessions    int // 0: each message is a new one
		want        Disposition
	}{
		{"new", TopicV2, 0, Inserted},
		{"refresh", TopicV2, 1000, Refreshed},
		{"v1 copy", TopicV1, 1000, DuplicateV1},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			core, _ := newBenchCore(b, 1, 1<<24)
			now := time.Now()
			distinct := c.sessions
			if distinct == 0 {
				distinct = b.N
			}
			msgs := make([]Message, distinct)
			for i := range msgs {
				msgs[i] = message(i, c.topic)
				if c.sessions > 0 {
					core.Receive(now, message(i, TopicV2))
				}
			}
			b.ResetTimer()
			for i := range b.N {
				if got := core.Receive(now, msgs[i%distinct]); got != c.want {
					b.Fatalf("%v, want %v", got, c.want)
				}
			}
		})
	}
}

// exchanged is what replicas sent one another.
type exchanged struct {
	messages, events, bytes int
	longest                 time.Duration // one Tick, Flush or Receive
	took                    time.Duration // of the replicas' time
}

// exchange lets d pass for replicas that hear one another at once, or less if
// until says so.
func exchange(now time.Time, d time.Duration, until func() bool, cores ...*Core) (x exchanged) {
	timed := func(f func()) {
		start := time.Now()
		f()
		x.longest = max(x.longest, time.Since(start))
	}
	for end := now.Add(d); now.Before(end) && !until(); now = now.Add(20 * time.Millisecond) {
		x.took += 20 * time.Millisecond
		for i, c := range cores {
			var out []Message
			timed(func() { c.Tick(now) })
			timed(func() { out = c.Flush(now) })
			for _, m := range out {
				x.messages++
				x.bytes += len(m.Topic) + len(m.Payload)
				if m.Topic == TopicV2 {
					x.events++
				}
				for j, other := range cores {
					if j != i {
						timed(func() { other.Receive(now, m) })
					}
				}
			}
		}
	}
	return x
}

// BenchmarkRepair is how two replicas of a million bindings find the hundred that
// differ: what they send, digests included, and for how long at most the goroutine
// that also sends bindings is busy. The time is that of 12.5 s of their lives.
func BenchmarkRepair(b *testing.B) {
	for _, sessions := range []int{65_536, 1_000_000} {
		b.Run(fmt.Sprint("sessions=", sessions), func(b *testing.B) {
			x, xs := newBenchCore(b, 1, sessions)
			y, ys := newBenchCore(b, 2, sessions)
			for i := range sessions {
				xs.Apply(benchEvent(i))
				ys.Apply(benchEvent(i))
			}
			runtime.GC()
			now, next := time.Now(), sessions
			var sent exchanged
			for b.Loop() {
				for range 100 {
					xs.Apply(benchEvent(next))
					next++
				}
				sent = exchange(now, 12500*time.Millisecond, func() bool { return false }, x, y)
				now = now.Add(sent.took)
				if xs.Digest() != ys.Digest() {
					b.Fatal("the replicas still differ")
				}
			}
			b.ReportMetric(float64(sent.events), "records")
			b.ReportMetric(float64(sent.bytes), "bytes")
			b.ReportMetric(float64(sent.longest.Microseconds()), "µs-longest")
		})
	}
}

// BenchmarkJoin is how long, in the time of the replicas, an empty one takes to
// learn 50,000 bindings from one or two others, and what they send for it.
func BenchmarkJoin(b *testing.B) {
	const sessions = 50_000
	for _, peers := range []int{1, 2} {
		b.Run(fmt.Sprint("peers=", peers), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				joiner, table := newBenchCore(b, 1, sessions)
				cores := []*Core{joiner}
				for id := range peers {
					c, t := newBenchCore(b, uint64(2+id), sessions)
					for i := range sessions {
						t.Apply(benchEvent(i))
					}
					cores = append(cores, c)
				}
				b.StartTimer()
				sent := exchange(time.Now(), 10*time.Second, func() bool { ready, _ := joiner.Ready(); return ready }, cores...)
				held := 0
				for bucket := range affinity.Buckets {
					held += table.BucketLen(uint8(bucket))
				}
				b.ReportMetric(float64(sent.took.Milliseconds()), "ms-to-ready")
				b.ReportMetric(float64(sessions-held), "missing")
				b.ReportMetric(float64(sent.events), "records")
				b.ReportMetric(float64(sent.bytes), "bytes")
			}
		})
	}
}
