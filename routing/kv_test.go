package routing_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/internal/tokenizer"
	"mooring/kvstate"
	"mooring/kvstate/blockhash"
	"mooring/routing"
)

func TestANewSessionGoesWhereItsPromptIs(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"), worker(3, "m"))
	w2, w3 := rankOf(2, 0), rankOf(3, 0)
	prompt := run(100, 10*blockSize)
	k.holds(w2, kvstate.Device, plain, prompt[:8*blockSize]...)
	k.wantSpread("not projected", idsBody(prompt), routing.New)

	k.projects(w2, false)
	k.wantWorker("projected", idsBody(prompt), 2, 8)
	k.wantWorker("token data", strings.ReplaceAll(fmt.Sprintf(`{"prompt":"text","nvext":{"a":[{}],"token_data":%v}}`, prompt), " ", ","), 2, 8)
	k.wantSpread("another prompt", idsBody(run(900, 40)), routing.New)
	// A prompt of ids wins over token data beside it.
	both := strings.Replace(idsBody(run(900, 40)), "{", strings.ReplaceAll(fmt.Sprintf(`{"nvext":{"token_data":%v},`, prompt), " ", ","), 1)
	k.wantSpread("both", both, routing.New)

	k.holds(w3, kvstate.Device, plain, prompt[:9*blockSize]...)
	k.projects(w3, true)
	k.wantWorker("holes halve nine blocks", idsBody(prompt), 2, 8)
	k.projects(w3, false)
	k.wantWorker("nine whole ones", idsBody(prompt), 3, 9)
	k.controller.Update(kvstate.Resolution{Owner: ownerOn(w3)})
	k.wantWorker("withdrawn", idsBody(prompt), 2, 8)
	k.controller.Update(kvstate.Resolution{Owner: ownerOn(w2)})
	k.wantSpread("all withdrawn", idsBody(prompt), routing.New)
}

func TestTheRouteSaysWhatItCost(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	prompt := run(0, 10*blockSize+1)
	k.holds(rankOf(1, 0), kvstate.Device, plain, prompt[:6*blockSize]...)
	k.holds(rankOf(1, 0), kvstate.HostPinned, plain, prompt[:8*blockSize]...)
	k.projects(rankOf(1, 0), false)
	rt := k.opens(idsBody(prompt))
	// 11 blocks; 6 + 0.75 * 2 saved; 11 - 7.5 + 11 in use.
	if rt.Target.Worker != 1 || rt.Overlap != 8 || rt.Cost != 14.5 || rt.Candidates != 2 {
		t.Errorf("got %v, overlap %d, cost %v of %d candidates; want worker 1, 8, 14.5, 2", rt.Target, rt.Overlap, rt.Cost, rt.Candidates)
	}
	next := k.mustRoute(headers{"x-session-id": rt.Session}, "")
	if next.Reason != routing.Bound || next.Overlap != 0 || next.Cost != 0 || next.Candidates != 0 {
		t.Errorf("the next turn: %v, %d, %v, %d; want it bound, and no choice", next.Reason, next.Overlap, next.Cost, next.Candidates)
	}
}

// Case B83.
func TestAdaptersAndSaltsKeepTheirPromptsApart(t *testing.T) {
	workers := []fleet.Worker{worker(1, "m"), worker(2, "m"), worker(3, "m")}
	for i := range workers {
		workers[i].Adapters = []string{"adapter-7"}
	}
	k := newKVRig(t, routing.Config{}, affinity.Config{}, workers...)
	prompt := run(7, 40)
	k.holds(rankOf(1, 0), kvstate.Device, plain, prompt...)
	k.holds(rankOf(2, 0), kvstate.Device, blockhash.Seed("adapter-7", ""), prompt...)
	k.holds(rankOf(3, 0), kvstate.Device, blockhash.Seed("", "adapter-7"), prompt...)
	for id := range fleet.WorkerID(3) {
		k.projects(rankOf(id+1, 0), false)
	}
	k.wantWorker("base", idsBody(prompt), 1, 10)
	k.wantWorker("adapter", strings.Replace(idsBody(prompt), `"m"`, `"adapter-7"`, 1), 2, 10)
	k.wantWorker("salt", strings.Replace(idsBody(prompt), `{`, `{"cache_salt":"adapter-7",`, 1), 3, 10)
	k.wantSpread("both", strings.Replace(idsBody(prompt), `"m"`, `"adapter-7","cache_salt":"adapter-7"`, 1), routing.New)
	k.wantSpread("a salt that is none", strings.Replace(idsBody(prompt), `{`, `{"cache_salt":7,`, 1), routing.NoTokens)
}

// Case B84.
func TestRanksHoldTheirOwn(t *testing.T) {
	one := worker(1, "m")
	one.Ranks = 4
	k := newKVRig(t, routing.Config{}, affinity.Config{}, one)
	for rank := range uint32(4) {
		k.projects(rankOf(1, rank), false)
		if rank != 3 { // the last is not heard
			k.holds(rankOf(1, rank), kvstate.Device, plain, run(1000*int(rank), 40)...)
		}
	}
	for _, rank := range []uint32{2, 0, 1} {
		if rt := k.opens(idsBody(run(1000*int(rank), 40))); rt.Target != fleet.OnRank(1, rank) {
			t.Errorf("rank %d's prompt goes to %v", rank, rt.Target)
		}
	}
}

// Case B88: two engines that hash differently, asked by tokens.
func TestEnginesMayNameBlocksDifferently(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"), worker(3, "m"))
	prompt := run(7, 40)
	for _, id := range []fleet.WorkerID{1, 3} {
		k.holds(rankOf(id, 0), kvstate.Device, plain, prompt...)
		k.projects(rankOf(id, 0), false)
	}
	used := make(map[fleet.WorkerID]int)
	for range 64 {
		rt := k.opens(idsBody(prompt))
		used[rt.Target.Worker]++
		rt.Release(affinity.Completed)
	}
	if used[1] == 0 || used[3] == 0 || used[2] != 0 {
		t.Errorf("requests by worker are %v, want them on 1 and 3", used)
	}
}

func TestOnlyPromptsThatMatterAreMissed(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	for what, body := range map[string]string{
		"text and no tokenizer": `{"prompt":"hello"}`,
		"chat and no tokenizer": `{"messages":[{"role":"user","content":"hi"}]}`,
		"no body":               ``,
		"not JSON":              `hello`,
		"a batch":               `{"prompt":[[1,2,3,4],[5,6,7,8]]}`,
		"texts":                 `{"prompt":["a","b"]}`,
		"fractions":             `{"prompt":[1,2.5]}`,
		"negative":              `{"prompt":[1,-2]}`,
		"too large":             `{"prompt":[4294967296]}`,
		"empty":                 `{"prompt":[]}`,
		"twice":                 `{"prompt":[1,2,3,4],"prompt":[1,2,3,4]}`,
		"data twice":            `{"nvext":{"token_data":[1,2,3,4],"token_data":[5,6,7,8]}}`,
		"another API":           `{"input":"hello"}`,
		"odd data":              `{"nvext":{"token_data":"x"},"messages":null}`,
	} {
		k.wantSpread(what, body, routing.NoTokens)
	}
	if rt := k.mustRoute(headers{}, idsBody(run(0, 40))); rt.Reason != routing.NoSession {
		t.Errorf("no session: %v", rt.Reason)
	}
	elsewhere := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "n"))
	if rt := elsewhere.mustRoute(headers{"x-session-id": "s"}, ""); rt.Reason != routing.New {
		t.Errorf("no KV state: %v, want new", rt.Reason)
	}
}

func TestWhatIsLookedUpOfAPromptIsBounded(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"))
	prompt := run(0, 16400*blockSize)
	k.holds(rankOf(1, 0), kvstate.Device, plain, prompt...)
	k.projects(rankOf(1, 0), false)
	e := k.explains(headers{}, idsBody(prompt))
	if held := e.Candidates[0].Overlap.Device; held != 16384 || e.Prompt.Blocks != 16400 {
		t.Errorf("%d blocks are held of %d, want 16384 of 16400", held, e.Prompt.Blocks)
	}
}

func TestPromptsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	a := &asked{status: http.StatusInternalServerError}
	cfg := routing.Config{Registerer: registry, Tokenizer: tokenizer.New(tokenizer.Config{Transport: a})}
	k := newKVRig(t, cfg, affinity.Config{}, worker(1, "m"))
	k.holds(rankOf(1, 0), kvstate.Device, plain, run(0, 8)...)
	k.projects(rankOf(1, 0), false)
	first := k.opens(idsBody(run(0, 14)))
	k.mustRoute(headers{"x-session-id": first.Session}, idsBody(run(0, 14)))
	k.opens(`{"prompt":"text"}`)
	k.opens(`{}`)
	k.mustRoute(headers{}, "")
	k.explains(headers{"x-session-id": "explained"}, idsBody(run(0, 14)))
	got := make(map[string]float64)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if n := m.GetCounter().GetValue(); n > 0 {
				got[f.GetName()+" "+m.GetLabel()[0].GetValue()] = n
			}
		}
	}
	want := map[string]float64{
		"mooring_prompts_total prompt": 1, "mooring_prompts_total tokenizer_failed": 1, "mooring_prompts_total no_prompt": 2,
		"mooring_prompt_blocks_total true": 2, "mooring_prompt_blocks_total false": 2,
	}
	if !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestReplicasAgreeOnPrompts(t *testing.T) {
	for _, temperature := range []float64{0, 0.5} {
		workers := []fleet.Worker{worker(1, "m"), worker(2, "m"), worker(3, "m"), worker(4, "m")}
		a := newKVRig(t, routing.Config{Temperature: temperature}, affinity.Config{}, workers...)
		b := newKVRig(t, routing.Config{Temperature: temperature}, affinity.Config{}, workers...)
		for _, k := range []*kvRig{a, b} {
			for id := range fleet.WorkerID(3) {
				k.holds(rankOf(id+1, 0), kvstate.Device, plain, run(0, 4*blockSize*int(id+1))...)
				k.projects(rankOf(id+1, 0), false)
			}
			k.externals = 0
		}
		for range 300 {
			body := idsBody(run(0, 16*blockSize))
			x, y := a.opens(body), b.opens(body)
			if x.Target != y.Target || x.Cost != y.Cost {
				t.Fatalf("temperature %v: replicas with equal state chose %v at %v and %v at %v", temperature, x.Target, x.Cost, y.Target, y.Cost)
			}
			x.Release(affinity.Completed)
			y.Release(affinity.Completed)
		}
	}
}

func TestSharedPromptsSpreadOverLoad(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"), worker(3, "m"), worker(4, "m"))
	system := run(0, 32*blockSize)
	k.holds(rankOf(1, 0), kvstate.Device, plain, system...)
	k.projects(rankOf(1, 0), false)
	var mu sync.Mutex
	used := make(map[fleet.WorkerID]int)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			body := idsBody(append(system[:len(system):len(system)], run(10_000+100*i, 4*blockSize)...))
			rt := k.mustRoute(headers{"x-session-id": fmt.Sprint("at-once-", i)}, body)
			mu.Lock()
			used[rt.Target.Worker]++
			mu.Unlock()
		})
	}
	wg.Wait()
	// Worker 1 has 32 of 36 blocks. A request there costs 36 - 32 + 36 = 40, and 9
	// more for each one before it: 4 blocks to compute, 4 in use, and itself.
	// Elsewhere it costs 72, and 41 more each. With 121 and 26 they meet.
	if len(used) != 4 || used[1] < 118 || used[1] > 124 {
		t.Errorf("requests by worker are %v, want about 121 on worker 1 and a third of the others on each other", used)
	}
}

// Holding a prompt makes nobody a candidate who is none.
func TestOverlapDoesNotWidenTheChoice(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"), worker(3, "m"))
	prompt := run(0, 40)
	k.holds(rankOf(2, 0), kvstate.Device, plain, prompt...)
	k.holds(rankOf(3, 0), kvstate.Device, plain, prompt[:20]...)
	k.projects(rankOf(2, 0), false)
	k.projects(rankOf(3, 0), false)
	within := func(session string, addresses ...string) *routing.Route {
		t.Helper()
		req := routing.Request{Session: session, Group: fleet.DefaultName, Restricted: true, Subset: addresses}
		if err := k.router.ReadBody(&req, "", []byte(idsBody(prompt))); err != nil {
			t.Fatal(err)
		}
		rt, err := k.router.Route(context.Background(), &req)
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
	if rt := within("a", "10.0.0.1:8000", "10.0.0.3"); rt.Target.Worker != 3 || rt.Overlap != 5 || rt.Candidates != 2 {
		t.Errorf("without worker 2: %v with %d of %d candidates, want worker 3 with 5 of 2", rt.Target, rt.Overlap, rt.Candidates)
	}
	if rt := within("b", "10.0.0.1"); rt.Target.Worker != 1 || rt.Overlap != 0 {
		t.Errorf("worker 1 only: %v with %d", rt.Target, rt.Overlap)
	}
	draining := worker(2, "m")
	draining.State = fleet.Draining
	k.live.Publish(fleet.NewView([]fleet.Worker{worker(1, "m"), draining, worker(3, "m")}))
	k.wantWorker("worker 2 drains", idsBody(prompt), 3, 5)
}
