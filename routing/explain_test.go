package routing_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/internal/tokenizer"
	"mooring/kvstate"
	"mooring/routing"
)

// explains reads a request as route does, and explains it.
func (r *rig) explains(h headers, body string) *routing.Explanation {
	r.t.Helper()
	req, err := r.router.ReadHeaders(h.values)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.router.ReadBody(&req, "", []byte(body)); err != nil {
		r.t.Fatal(err)
	}
	return r.router.Explain(context.Background(), &req)
}

func TestExplainListsEveryPart(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	prompt := run(0, 10*blockSize)
	k.holds(rankOf(1, 0), kvstate.Device, plain, prompt[:6*blockSize]...)
	k.holds(rankOf(1, 0), kvstate.Disk, plain, prompt[:8*blockSize]...)
	k.projects(rankOf(1, 0), true)
	e := k.explains(headers{"x-session-id": "s"}, idsBody(prompt))
	if e.Refused != nil || e.Reason != routing.New || e.Target != fleet.OnRank(1, 0) || e.Address != "10.0.0.1:8000" || e.Session != "s" || e.Partition.Model != "m" {
		t.Errorf("got %+v", e)
	}
	if want := (routing.PromptInfo{Source: "prompt", Tokens: 40, Blocks: 10, BlockSize: blockSize}); e.Prompt != want {
		t.Errorf("prompt %+v, want %+v", e.Prompt, want)
	}
	if !strings.Contains(e.Why, "16.75") || !strings.Contains(e.Why, "least of 2") {
		t.Errorf("why: %q, want the cost named", e.Why)
	}
	want := []routing.Candidate{
		{
			Target: fleet.OnRank(1, 0), Address: "10.0.0.1:8000", Overlap: routing.Overlap{Device: 6, Disk: 2, Holed: true}, Work: routing.Work{Decode: 10},
			Cost: routing.Cost{Decay: 1, Credit: 3.25, RawPrefill: 10, Prefill: 6.75, Decode: 10, Total: 16.75}, // (6 + 0.25*2) / 2
		},
		{
			Target: fleet.OnRank(2, 0), Address: "10.0.0.2:8000", Work: routing.Work{Decode: 10},
			Cost: routing.Cost{Decay: 1, RawPrefill: 10, Prefill: 10, Decode: 10, Total: 20},
		},
	}
	if len(e.Candidates) != 2 || e.Candidates[0] != want[0] || e.Candidates[1] != want[1] {
		t.Errorf("candidates\n got %+v\nwant %+v", e.Candidates, want)
	}
}

// Explain says what Route then does, and changes nothing by saying it.
func TestExplainIsWhatRouteDoes(t *testing.T) {
	a := &asked{tokens: run(0, 40), status: http.StatusOK}
	two := worker(2, "m")
	two.Ranks = 2
	cfg := routing.Config{ExplicitTarget: true, Tokenizer: tokenizer.New(tokenizer.Config{Transport: a}), Limits: routing.Limits{ActiveRequests: 40}}
	k := newKVRig(t, cfg, affinity.Config{MaxSessions: 1000}, worker(1, "m"), two, worker(3, "m"))
	k.holds(rankOf(3, 0), kvstate.Device, plain, run(0, 20)...)
	k.projects(rankOf(3, 0), false)
	requests := []struct {
		h    headers
		body string
	}{
		{headers{"x-session-id": "a"}, idsBody(run(0, 40))},
		{headers{"x-session-id": "b"}, idsBody(run(500, 40))},
		{headers{"x-session-id": "a"}, idsBody(run(0, 40))},
		{headers{"x-session-id": "c"}, `{"prompt":"text"}`},
		{headers{"x-session-id": "d"}, `{"input":"text"}`},
		{headers{"x-request-id": "r"}, ``},
		{headers{}, ``},
		{headers{}, ``},
		{headers{"x-dynamo-worker-instance-id": "2", "x-dynamo-dp-rank": "1"}, ``},
		{headers{"x-session-id": "e", "x-dynamo-worker-instance-id": "2"}, ``},
		{headers{"x-session-id": "a", "x-dynamo-worker-instance-id": "2"}, ``},
		{headers{"x-session-id": "f", "x-dynamo-worker-instance-id": "77"}, ``},
		{headers{"x-session-id": "g", "x-routing-group": "none"}, ``},
	}
	for round := range 30 {
		for i, q := range requests {
			before := k.lives()
			e := k.explains(q.h, q.body)
			if again := k.explains(q.h, q.body); again.Target != e.Target || again.Reason != e.Reason {
				t.Fatalf("explained %v, then %v: the first changed something", e.Target, again.Target)
			}
			if after := k.lives(); after != before {
				t.Fatalf("live requests went from %v to %v", before, after)
			}
			rt, err := k.route(q.h, q.body)
			switch {
			case err != nil:
				if e.Refused == nil || e.Refused.Error() != err.Error() {
					t.Fatalf("round %d, request %d: explained %+v, refused %v", round, i, e, err)
				}
			case e.Refused != nil || rt.Target != e.Target || rt.Reason != e.Reason || rt.Address != e.Address:
				t.Fatalf("round %d, request %d: explained %v %v (%v), routed %v %v", round, i, e.Target, e.Reason, e.Refused, rt.Target, rt.Reason)
			}
		}
	}
}

// lives returns the live requests of all workers' ranks.
func (r *rig) lives() (n [4]int) {
	for i, t := range []fleet.Target{fleet.OnRank(1, 0), fleet.OnRank(2, 0), fleet.OnRank(2, 1), fleet.OnRank(3, 0)} {
		n[i] = r.router.Live(t)
	}
	return n
}

func TestExplainOfABoundSessionShowsTheOthers(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	first := k.mustRoute(headers{"x-session-id": "s"}, "")
	better := 3 - first.Target.Worker
	k.holds(rankOf(better, 0), kvstate.Device, plain, run(0, 40)...)
	k.projects(rankOf(better, 0), false)
	e := k.explains(headers{"x-session-id": "s"}, idsBody(run(0, 40)))
	if e.Target != first.Target || e.Reason != routing.Bound || !strings.Contains(e.Why, "bound") {
		t.Errorf("got %v, %v, %q; want %v, bound", e.Target, e.Reason, e.Why, first.Target)
	}
	if c := e.Candidates[better-1]; len(e.Candidates) != 2 || c.Overlap.Device != 10 {
		t.Errorf("candidates %+v, want worker %d with 10 blocks", e.Candidates, better)
	}
}

func TestExplainOfAGoneWorker(t *testing.T) {
	for _, when := range []affinity.WhenGone{affinity.Rebind, affinity.Fail} {
		r := newRig(t, routing.Config{}, affinity.Config{WhenGone: when}, worker(1, "m"), worker(2, "m"))
		first := r.mustRoute(headers{"x-session-id": "s"}, "")
		gone := worker(first.Target.Worker, "m")
		gone.State = fleet.Unhealthy
		r.live.Publish(fleet.NewView([]fleet.Worker{gone, worker(3-first.Target.Worker, "m")}))
		e := r.explains(headers{"x-session-id": "s"}, "")
		rt, err := r.route(headers{"x-session-id": "s"}, "")
		if err != nil {
			if e.Refused == nil || e.Reason != routing.WorkerGone {
				t.Errorf("%v: explained %+v, refused %v", when, e, err)
			}
			continue
		}
		if e.Target != rt.Target || e.Reason != rt.Reason || rt.Reason != routing.Rebound {
			t.Errorf("%v: explained %v %v, routed %v %v; want it rebound", when, e.Target, e.Reason, rt.Target, rt.Reason)
		}
	}
}
