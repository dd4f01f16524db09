package routing_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/internal/tokenizer"
	"mooring/kvstate"
	"mooring/routing"
)

// asked is a tokenizer that answers every prompt with some tokens.
type asked struct {
	tokens []uint32
	status int
	then   func() // called before each answer; nil: nothing

	mu     sync.Mutex
	urls   []string
	bodies []string
}

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.urls, a.bodies = append(a.urls, r.URL.String()), append(a.bodies, string(body))
	if a.then != nil {
		a.then()
	}
	answer := strings.ReplaceAll(fmt.Sprintf(`{"tokens":%v}`, a.tokens), " ", ",")
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(bytes.NewBufferString(answer))}, nil
}

func TestTextIsTokenizedOnceForANewSession(t *testing.T) {
	prompt := run(50, 32)
	a := &asked{tokens: prompt, status: http.StatusOK}
	k := newKVRig(t, routing.Config{Tokenizer: tokenizer.New(tokenizer.Config{Transport: a}), MaxBodyBytes: 4 << 20}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	k.holds(rankOf(2, 0), kvstate.Device, plain, prompt...)
	k.projects(rankOf(2, 0), false)

	h := headers{"x-session-id": "s"}
	chat := `{"messages":[{"role":"user","content":"hi"}],"model":"m","temperature":1,"tools":[{"a":1}],"stream":true,"chat_template_kwargs":{"x":[]}}`
	rt := k.mustRoute(h, chat)
	if rt.Target.Worker != 2 || rt.Overlap != 8 || rt.Reason != routing.New {
		t.Errorf("got %v, overlap %d, %v; want worker 2, 8, new", rt.Target, rt.Overlap, rt.Reason)
	}
	for range 5 {
		if rt := k.mustRoute(h, chat); rt.Reason != routing.Bound {
			t.Errorf("next turn: %v", rt.Reason)
		}
	}
	want := `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"a":1}],"add_generation_prompt":true,"chat_template_kwargs":{"x":[]}}`
	if len(a.bodies) != 1 || a.bodies[0] != want || a.urls[0] != "http://10.0.0.1:8000/tokenize" && a.urls[0] != "http://10.0.0.2:8000/tokenize" {
		t.Errorf("asked %q for %q, want one worker once for %q", a.urls, a.bodies, want)
	}
	k.opens(chat) // its answer is known
	k.opens(`{"prompt":"hi","messages":null,"max_tokens":1}`)
	if len(a.bodies) != 2 || a.bodies[1] != `{"model":"m","prompt":"hi"}` {
		t.Errorf("asked for %q, want one more, the completion", a.bodies)
	}
	k.opens(`{"system":"be brief","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"tools":[{"name":"ls","input_schema":{"type":"object"}}]}`)
	if want := `{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"ls","parameters":{"type":"object"}}}],"add_generation_prompt":true}`; len(a.bodies) != 3 || a.bodies[2] != want {
		t.Errorf("asked for %q, want one more, %q", a.bodies, want)
	}
	k.opens(`{"system":"be brief","messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`)
	k.opens(`{"messages":"hi"}`)
	k.opens(`{"prompt":"` + strings.Repeat("x", 2<<20) + `"}`)
	if len(a.bodies) != 3 {
		t.Errorf("asked for %q, which is not what the worker will see", a.bodies[3:])
	}
}

func TestOnlyLiveWorkersAreAskedForTokens(t *testing.T) {
	a := &asked{tokens: run(0, 32), status: http.StatusOK}
	down, away := worker(1, "m"), worker(2, "m")
	down.State, away.State = fleet.Unhealthy, fleet.Draining
	k := newKVRig(t, routing.Config{Tokenizer: tokenizer.New(tokenizer.Config{Transport: a})}, affinity.Config{}, down, away, worker(3, "m"))
	for i := range 32 {
		k.opens(fmt.Sprintf(`{"prompt":"hi %d"}`, i)).Release(affinity.Completed)
	}
	if asked := slices.Compact(a.urls); len(a.urls) != 32 || len(asked) != 1 || asked[0] != "http://10.0.0.3:8000/tokenize" {
		t.Errorf("asked %v, want worker 3 alone", asked)
	}
}

// Nobody is sent to who was there when a tokenizer was asked and is not when it
// answers.
func TestAWorkerThatLeavesMeanwhileIsNotChosen(t *testing.T) {
	a := &asked{tokens: run(0, 32), status: http.StatusOK}
	k := newKVRig(t, routing.Config{Tokenizer: tokenizer.New(tokenizer.Config{Transport: a})}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	k.holds(rankOf(1, 0), kvstate.Device, plain, run(0, 32)...)
	k.projects(rankOf(1, 0), false)
	a.then = func() { k.live.Publish(fleet.NewView([]fleet.Worker{worker(2, "m")})) }
	if rt := k.mustRoute(headers{}, `{"prompt":"hi"}`); rt.Target.Worker != 2 || len(a.urls) != 1 {
		t.Errorf("on %v after %d calls, want worker 2 after one", rt.Target, len(a.urls))
	}
}

// A bound session's prompt is not read, even where the gateway makes it move.
func TestASessionThatLeavesForASubsetAsksNobody(t *testing.T) {
	a := &asked{tokens: run(0, 32), status: http.StatusOK}
	k := newKVRig(t, routing.Config{Tokenizer: tokenizer.New(tokenizer.Config{Transport: a})}, affinity.Config{Mode: affinity.Soft}, worker(1, "m"), worker(2, "m"))
	first := k.mustRoute(headers{"x-session-id": "s"}, "")
	req := routing.Request{Session: "s", Group: fleet.DefaultName, Restricted: true, Subset: []string{fmt.Sprint("10.0.0.", 3-first.Target.Worker)}}
	if err := k.router.ReadBody(&req, "", []byte(`{"prompt":"hi"}`)); err != nil {
		t.Fatal(err)
	}
	rt, err := k.router.Route(context.Background(), &req)
	if err != nil {
		t.Fatal(err)
	}
	if rt.Reason != routing.Rebound || rt.Target.Worker == first.Target.Worker || len(a.urls) != 0 {
		t.Errorf("on %v, %v, after %d calls; want the other worker, rebound, none", rt.Target, rt.Reason, len(a.urls))
	}
}

func TestATokenizerThatFailsCostsTheOverlapOnly(t *testing.T) {
	a := &asked{status: http.StatusInternalServerError}
	k := newKVRig(t, routing.Config{Tokenizer: tokenizer.New(tokenizer.Config{Transport: a}), TokenizerURL: "http://t/x"}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	k.wantSpread("failing", `{"prompt":"hi"}`, routing.NoTokens)
	if len(a.urls) != 5 || a.urls[0] != "http://t/x" {
		t.Errorf("asked %q, want the configured one five times, until its circuit opens", a.urls)
	}
}

// A session that another request is opening waits for it, and asks nobody.
func TestManyFirstRequestsMakeOneCall(t *testing.T) {
	a := &asked{tokens: run(0, 32), status: http.StatusOK}
	k := newKVRig(t, routing.Config{Tokenizer: tokenizer.New(tokenizer.Config{Transport: a, CacheTokens: 1})}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { k.mustRoute(headers{"x-session-id": "s"}, `{"prompt":"hi"}`) })
	}
	wg.Wait()
	if len(a.bodies) != 1 {
		t.Errorf("%d calls, want 1", len(a.bodies))
	}
}
