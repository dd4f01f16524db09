package affinity

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mooring/internal/fleet"
)

// concurrently runs b.N calls of f, divided between n goroutines; f gets a
// number that no other call gets.
func concurrently(b *testing.B, n int, f func(i int)) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for g := range n {
		wg.Go(func() {
			for i := g; i < b.N; i += n {
				f(i)
			}
		})
	}
	wg.Wait()
}

func sessionNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("conversation-%024d", i)
	}
	return names
}

// benchTable returns a table with the given number of locks, all of names bound.
func benchTable(b *testing.B, shards int, names []string) *Table {
	b.Helper()
	r, _ := newTestResolver(b, Config{MaxSessions: 8 << 20, TTL: time.Hour})
	t := newTable(r, mooring, shards)
	for i, name := range names {
		bindTo(b, t, name, fleet.OnRank(fleet.WorkerID(i%3+1), 0)).Release(Completed)
	}
	return t
}

var lockCounts = []int{1, shardCount}

// BenchmarkHit is a turn of a bound session: acquire and release.
func BenchmarkHit(b *testing.B) {
	names := sessionNames(65536)
	for _, shards := range lockCounts {
		t := benchTable(b, shards, names)
		for _, n := range []int{1, 2, 4, 8} {
			b.Run(fmt.Sprintf("locks=%d/goroutines=%d", shards, n), func(b *testing.B) {
				concurrently(b, n, func(i int) {
					l, err := t.Acquire(b.Context(), names[i*7919%len(names)], fleet.Target{})
					if err != nil {
						b.Error(err)
					}
					l.Release(Completed)
				})
			})
		}
	}
}

// BenchmarkMissAndBind is the first turn of a session up to its binding.
func BenchmarkMissAndBind(b *testing.B) {
	for _, shards := range lockCounts {
		for _, n := range []int{1, 2, 4, 8} {
			b.Run(fmt.Sprintf("locks=%d/goroutines=%d", shards, n), func(b *testing.B) {
				t := benchTable(b, shards, nil)
				names := sessionNames(b.N)
				concurrently(b, n, func(i int) {
					l, err := t.Acquire(b.Context(), names[i], fleet.Target{})
					if err == nil {
						err = l.Bind(fleet.OnRank(1, 0))
					}
					if err != nil {
						b.Error(err)
					}
				})
			})
		}
	}
}

// BenchmarkRelease is the end of a request alone.
func BenchmarkRelease(b *testing.B) {
	for _, n := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			names := sessionNames(65536)
			t := benchTable(b, shardCount, names)
			leases := make([]*Lease, b.N)
			for i := range leases {
				leases[i] = acquired(b, t, names[i*7919%len(names)])
			}
			concurrently(b, n, func(i int) { leases[i].Release(Completed) })
		})
	}
}

// BenchmarkListPage is one page of 100 from the middle of all sessions.
func BenchmarkListPage(b *testing.B) {
	for _, sessions := range []int{1000, 65536, 1_000_000} {
		names := sessionNames(sessions)
		t := benchTable(b, shardCount, names)
		r := &Resolver{live: t.live}
		r.tables.Store(&map[fleet.Partition]*Table{mooring: t})
		after := cursor{mooring, names[sessions/2]}.String()
		for _, n := range []int{1, 2, 4, 8} {
			b.Run(fmt.Sprintf("sessions=%d/goroutines=%d", sessions, n), func(b *testing.B) {
				concurrently(b, n, func(int) {
					if page, _ := r.List(Filter{}, after, 100); len(page) != 100 {
						b.Errorf("%d entries", len(page))
					}
				})
			})
		}
	}
}

// BenchmarkMillionSessions reports what a binding costs in memory and how long
// a lock is held, at the longest, while a million bindings expire.
func BenchmarkMillionSessions(b *testing.B) {
	const sessions = 1_000_000
	for b.Loop() {
		names := sessionNames(sessions)
		before := heapInUse()
		t := benchTable(b, shardCount, names)
		// The names are the bench's own; the table has copies, which count.
		b.ReportMetric(float64(heapInUse()-before)/sessions, "bytes/binding")

		var longest, total time.Duration
		end := t.now() + instant(t.rules.ttl)
		for i := range t.shards {
			for more := true; more; {
				start := time.Now()
				more = t.shards[i].sweep(t, end)
				took := time.Since(start)
				longest, total = max(longest, took), total+took
			}
		}
		if n := t.entries.Load(); n != 0 {
			b.Fatalf("%d entries left", n)
		}
		b.ReportMetric(float64(longest.Microseconds()), "µs-longest-hold")
		b.ReportMetric(float64(total.Nanoseconds())/sessions, "ns/expiry")
		runtime.KeepAlive(names)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkHitDuringExpiry shows what a turn of a bound session takes while a
// million bindings expire beside it.
func BenchmarkHitDuringExpiry(b *testing.B) {
	for b.Loop() {
		t := benchTable(b, shardCount, sessionNames(1_000_000))
		held := make([]*Lease, 1000) // these outlive the sweep
		for i := range held {
			held[i] = bindTo(b, t, "held-"+strconv.Itoa(i), fleet.OnRank(1, 0))
		}
		var done atomic.Bool
		go func() {
			t.sweep(t.now() + instant(t.rules.ttl))
			done.Store(true)
		}()
		var took []time.Duration
		for i := 0; !done.Load(); i++ {
			start := time.Now()
			acquired(b, t, "held-"+strconv.Itoa(i%1000)).Release(Completed)
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns-p50")
		b.ReportMetric(float64(took[len(took)*999/1000].Nanoseconds()), "ns-p99.9")
		b.ReportMetric(float64(took[len(took)-1].Microseconds()), "µs-max")
	}
}
