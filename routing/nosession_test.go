package routing_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/internal/tokenizer"
	"mooring/kvstate"
	"mooring/routing"
)

func TestARequestWithoutSessionGoesWhereItsPromptIs(t *testing.T) {
	workers := []fleet.Worker{worker(1, "m"), worker(2, "m"), worker(3, "m"), worker(4, "m")}
	k := newKVRig(t, routing.Config{}, affinity.Config{}, workers...)
	prompt := run(100, 10*blockSize)
	for _, id := range []fleet.WorkerID{2, 4} {
		k.holds(rankOf(id, 0), kvstate.Device, plain, prompt[:8*blockSize]...)
		k.projects(rankOf(id, 0), false)
	}
	used := make(map[fleet.WorkerID]int)
	for i := range 64 {
		h := headers{"x-request-id": fmt.Sprint("r", i)}
		e := k.explains(h, idsBody(prompt))
		rt := k.mustRoute(h, idsBody(prompt))
		if rt.Overlap != 8 || rt.Cost != 12 || rt.Reason != routing.NoSession || rt.Session != "" {
			t.Fatalf("on %v with overlap %d at %v, %v, session %q; want 8 at 12, no_session", rt.Target, rt.Overlap, rt.Cost, rt.Reason, rt.Session)
		}
		if e.Target != rt.Target || e.Reason != routing.NoSession || e.Prompt.Blocks != 10 || !strings.Contains(e.Why, "hash of the request") {
			t.Fatalf("explained %v, %v, %+v, %q; routed to %v", e.Target, e.Reason, e.Prompt, e.Why, rt.Target)
		}
		again := k.explains(h, idsBody(prompt))
		rt.Release(affinity.Completed)
		if again.Target == rt.Target { // its first request is still there
			t.Fatalf("a second request beside the first goes to %v too", again.Target)
		}
		used[rt.Target.Worker]++
	}
	if used[2] < 16 || used[4] < 16 || len(used) != 2 {
		t.Errorf("requests by worker are %v, want both that hold the prompt, by the requests' ids", used)
	}
	for _, body := range []string{`{"prompt":"text"}`, ``, `{`} {
		if rt := k.mustRoute(headers{}, body); rt.Reason != routing.NoSession || rt.Overlap != 0 || rt.Cost != 0 {
			t.Errorf("%q: %v with overlap %d at %v, want no_session, by load", body, rt.Reason, rt.Overlap, rt.Cost)
		}
	}
}

func TestRequestsWithoutSessionAskAllWorkersForTokens(t *testing.T) {
	a := &asked{tokens: run(0, 32), status: http.StatusOK}
	k := newKVRig(t, routing.Config{Tokenizer: tokenizer.New(tokenizer.Config{Transport: a})}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	k.holds(rankOf(1, 0), kvstate.Device, plain, run(0, 32)...)
	k.projects(rankOf(1, 0), false)
	for i := range 32 {
		rt := k.mustRoute(headers{}, fmt.Sprintf(`{"prompt":"hi %d"}`, i))
		if rt.Target.Worker != 1 || rt.Overlap != 8 {
			t.Errorf("on %v with overlap %d, want worker 1 with 8", rt.Target, rt.Overlap)
		}
		rt.Release(affinity.Completed)
	}
	asked := make(map[string]int)
	for _, url := range a.urls {
		asked[url]++
	}
	if len(asked) != 2 || len(a.urls) != 32 {
		t.Errorf("asked %v, want both workers", asked)
	}
}
