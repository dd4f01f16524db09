package routing_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/routing"
)

// plainRouter returns a router over n workers without KV state.
func plainRouter(b *testing.B, n int, cfg routing.Config) *routing.Router {
	b.Helper()
	workers := make([]fleet.Worker, n)
	for i := range workers {
		workers[i] = fleet.Worker{
			ID: fleet.WorkerID(i + 1), Address: fmt.Sprintf("10.0.%d.%d:80", i/250, i%250), Models: []string{"m"}, Group: fleet.DefaultName, Ranks: 1, State: fleet.Active,
		}
	}
	live := fleet.NewLive(fleet.NewView(workers))
	sessions, err := affinity.NewResolver(live, affinity.Config{WriterID: 1, TTL: time.Hour, MaxSessions: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	cfg.SessionHeaders = []string{"x-session-id"}
	return routing.NewRouter(live, sessions, cfg)
}

// cpuTime is what the process has computed so far. On a busy machine it tells more
// than the clock.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPlain is a whole decision where there is no KV state, up to its release:
// of a request without a session, and of a bound one.
func BenchmarkPlain(b *testing.B) {
	for _, session := range []string{"", "s"} {
		for _, n := range []int{8, 64} {
			b.Run(fmt.Sprintf("session=%q/%dworkers", session, n), func(b *testing.B) {
				r := plainRouter(b, n, routing.Config{})
				sent := map[string][]string{"x-session-id": {session}, "x-request-id": {"0f6f9f5e-3b1c-4a55-9a3e-7f0f4c1d2e3f"}}
				values := func(name string) []string { return sent[name] }
				req := new(routing.Request) // of an exchange
				b.ReportAllocs()
				before := cpuTime(b)
				for b.Loop() {
					var err error
					if *req, err = r.ReadHeaders(values); err != nil {
						b.Fatal(err)
					}
					rt, err := r.Route(context.Background(), req)
					if err != nil {
						b.Fatal(err)
					}
					rt.Release(affinity.Completed)
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// BenchmarkBusy is the same where each of 64 workers has a request and says so.
func BenchmarkBusy(b *testing.B) {
	at := time.Now()
	figures := func(fleet.Target) (routing.Figures, bool) {
		return routing.Figures{Running: 2, KVUse: 0.5, KVBlocks: 1000, At: at}, true
	}
	for _, told := range []bool{false, true} {
		b.Run(fmt.Sprintf("figures=%v", told), func(b *testing.B) {
			cfg := routing.Config{Limits: routing.Limits{ActiveRequests: 100}}
			if told {
				cfg.Figures = figures
			}
			r := plainRouter(b, 64, cfg)
			req := &routing.Request{Group: fleet.DefaultName, ID: "0f6f9f5e-3b1c-4a55-9a3e-7f0f4c1d2e3f"}
			for range 64 {
				if _, err := r.Route(context.Background(), req); err != nil {
					b.Fatal(err)
				}
			}
			at = time.Now()
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				rt, err := r.Route(context.Background(), req)
				if err != nil {
					b.Fatal(err)
				}
				rt.Release(affinity.Completed)
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
