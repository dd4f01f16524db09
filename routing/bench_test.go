package routing

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/blockhash"
	"mooring/kvstate/index"
)

// benchPrompt is 512 blocks of 16 tokens.
const (
	benchBlockSize = 16
	benchBlocks    = 512
)

// benchRouter returns a router over n workers, each of which holds another share
// of one prompt, and that prompt as a body.
func benchRouter(b *testing.B, n int) (*Router, []byte) {
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
	cfg := Config{
		SessionHeaders: []string{"x-session-id"}, Index: index.NewSet(index.Config{}), Controller: kvstate.NewController(), Weights: DefaultWeights(),
	}
	ix := cfg.Index.Open(fleet.Partition{Model: "m", Group: fleet.DefaultName})
	ix.SetBlockSize(benchBlockSize)
	tokens := make([]uint32, benchBlocks*benchBlockSize)
	for i := range tokens {
		tokens[i] = uint32(i * 7)
	}
	local := blockhash.Append(nil, tokens, benchBlockSize, blockhash.Seed("", ""))
	for i := range n {
		w := kvstate.Worker{WorkerID: uint64(i + 1)}
		var blocks []kvstate.Block
		for j, hash := range local[:len(local)*(i+1)/n] {
			blocks = append(blocks, kvstate.Block{External: uint64(j + 1), Local: hash})
		}
		ix.Store(index.Owner{Key: kvstate.WorkerKey(w)}, kvstate.Device, 0, false, blocks)
		var owner kvstate.CacheOwnerID
		owner.Slot.Digest = [16]byte(kvstate.WorkerKey(w))
		cfg.Controller.Update(kvstate.Resolution{Owner: owner, State: kvstate.Ready, Worker: w})
	}
	body := `{"model":"m","prompt":` + strings.ReplaceAll(fmt.Sprint(tokens), " ", ",") + `}`
	return NewRouter(live, sessions, cfg), []byte(body)
}

// BenchmarkChoice is the choice alone, from token ids that were read: hashing,
// look-up, cost, pick, count, and taking the count back.
func BenchmarkChoice(b *testing.B) {
	for _, n := range []int{8, 64} {
		b.Run(fmt.Sprintf("%dworkers", n), func(b *testing.B) {
			r, body := benchRouter(b, n)
			req := Request{Session: "s", Group: fleet.DefaultName}
			if err := r.ReadBody(&req, "", body); err != nil {
				b.Fatal(err)
			}
			w := wish{req: &req, partition: fleet.Partition{Model: "m", Group: fleet.DefaultName}, byPrompt: true}
			b.ReportAllocs()
			for b.Loop() {
				p, err := r.choose(context.Background(), w)
				if err != nil || p.held == nil {
					b.Fatal(p, err)
				}
				r.load.done(p.target, p.held)
			}
		})
	}
}

// BenchmarkNewSession is all of a new session's first request, with its body of
// token ids, up to its release.
func BenchmarkNewSession(b *testing.B) {
	for _, n := range []int{8, 64} {
		b.Run(fmt.Sprintf("%dworkers", n), func(b *testing.B) {
			r, body := benchRouter(b, n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				routeOnce(b, r, fmt.Sprint("s", i%100_000), body, i <= 100_000, New)
			}
		})
	}
}

// BenchmarkBoundSession is a next turn: headers, and no body.
func BenchmarkBoundSession(b *testing.B) {
	for _, n := range []int{8, 1000} {
		for _, kv := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dworkers/kv=%v", n, kv), func(b *testing.B) {
				r, body := benchRouter(b, n)
				if !kv {
					r.cfg.Index = nil
				}
				routeOnce(b, r, "s", body, kv, New)
				b.ReportAllocs()
				for b.Loop() {
					routeOnce(b, r, "s", nil, false, Bound)
				}
			})
		}
	}
}

func routeOnce(b *testing.B, r *Router, session string, body []byte, wants bool, reason Reason) {
	req, err := r.ReadHeaders(func(name string) []string {
		if name == "x-session-id" {
			return []string{session}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	if got := r.WantsBody(&req); got != wants {
		b.Fatalf("wants its body: %v", got)
	} else if got {
		if err := r.ReadBody(&req, "", body); err != nil {
			b.Fatal(err)
		}
	}
	rt, err := r.Route(context.Background(), &req)
	if err != nil || reason == Bound && rt.Reason != Bound {
		b.Fatal(rt, err)
	}
	rt.Release(affinity.Completed)
}
