package tokenizer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/internal/tokenizer"
)

// server is a tokenizer without a network: it answers as it is told.
type server struct {
	delay  time.Duration
	status int
	body   string
	err    error
	deaf   bool // goes on when nobody waits any more

	calls, running, most atomic.Int32
	mu                   sync.Mutex
	asked                []string // endpoints
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls.Add(1)
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.String())
	s.mu.Unlock()
	s.most.Store(max(s.most.Load(), s.running.Add(1)))
	defer s.running.Add(-1)
	if s.deaf {
		time.Sleep(s.delay)
	} else if s.delay > 0 {
		select {
		case <-time.After(s.delay):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	return &http.Response{StatusCode: s.status, Body: io.NopCloser(strings.NewReader(s.body))}, nil
}

func fine() *server { return &server{status: http.StatusOK, body: `{"count":3,"tokens":[1,2,3]}`} }

func at(endpoints ...string) func(func(string) bool) { return slices.Values(endpoints) }

const one = "http://10.0.0.1:8000/tokenize"

func ask(c *tokenizer.Client, body string) tokenizer.Outcome {
	_, outcome := c.Tokens(context.Background(), at(one), "m/g", []byte(body))
	return outcome
}

func TestTokensComeFromTheEndpointAndThenFromTheCache(t *testing.T) {
	s := fine()
	registry := prometheus.NewRegistry()
	c := tokenizer.New(tokenizer.Config{Transport: s, Registerer: registry})
	for i, want := range []tokenizer.Outcome{tokenizer.OK, tokenizer.Cached, tokenizer.Cached} {
		tokens, outcome := c.Tokens(context.Background(), at(one), "m/g", []byte(`{"prompt":"a"}`))
		if outcome != want || !slices.Equal(tokens, []uint32{1, 2, 3}) {
			t.Errorf("call %d: %v, %v; want %v", i, tokens, outcome, want)
		}
	}
	if _, outcome := c.Tokens(context.Background(), at(one), "m/other", []byte(`{"prompt":"a"}`)); outcome != tokenizer.OK {
		t.Errorf("another partition: %v, want it asked", outcome)
	}
	if s.calls.Load() != 2 {
		t.Errorf("%d calls, want 2", s.calls.Load())
	}
	if ok, cached := calls(t, registry, "ok"), calls(t, registry, "cached"); ok != 2 || cached != 2 {
		t.Errorf("counted %v ok and %v cached, want 2 and 2", ok, cached)
	}
}

// calls returns how many calls of an outcome were counted.
func calls(t *testing.T, registry *prometheus.Registry, outcome string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "mooring_tokenizer_calls_total" && m.GetLabel()[0].GetValue() == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no calls of outcome %s", outcome)
	return 0
}

func TestTheCacheIsBounded(t *testing.T) {
	s := fine()
	c := tokenizer.New(tokenizer.Config{Transport: s, CacheTokens: 2 * (3 + 64)}) // two answers
	for _, body := range []string{"a", "b", "a", "c"} {                           // c drops b, which was used longest ago
		ask(c, body)
	}
	if a, b := ask(c, "a"), ask(c, "b"); a != tokenizer.Cached || b != tokenizer.OK {
		t.Errorf("a %v, b %v; want a cached and b asked again", a, b)
	}
	s.body = `{"tokens":[` + strings.Repeat("1,", 200) + `1]}`
	if long, again, b := ask(c, "long"), ask(c, "long"), ask(c, "b"); long != tokenizer.OK || again != tokenizer.OK || b != tokenizer.Cached {
		t.Errorf("an answer that has no room: %v, then %v, and b %v; want it asked again and b kept", long, again, b)
	}
}

func TestTheSameAskedTwiceAtOnceIsKeptOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fine()
		s.delay = time.Millisecond
		c := tokenizer.New(tokenizer.Config{Transport: s, CacheTokens: 2 * (3 + 64)})
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { ask(c, "a") })
		}
		both.Wait()
		ask(c, "b")
		if a, b := ask(c, "a"), ask(c, "b"); a != tokenizer.Cached || b != tokenizer.Cached {
			t.Errorf("a %v, b %v; want both cached", a, b)
		}
	})
}

func TestWhatCanGoWrong(t *testing.T) {
	tests := []struct {
		name   string
		server *server
		want   tokenizer.Outcome
	}{
		{"no such path", &server{status: 404}, tokenizer.Failed},
		{"overloaded", &server{status: 503}, tokenizer.Failed},
		{"redirected", &server{status: 302}, tokenizer.Failed},
		{"bad prompt", &server{status: 400}, tokenizer.Refused},
		{"too long a prompt", &server{status: 422}, tokenizer.Refused},
		{"no connection", &server{err: errors.New("refused")}, tokenizer.Unreachable},
		{"no JSON", &server{status: 200, body: "<html>"}, tokenizer.Malformed},
		{"no tokens", &server{status: 200, body: `{"count":0}`}, tokenizer.Malformed},
		{"endless", &server{status: 200, body: `{"x":"` + strings.Repeat("x", 2000)}, tokenizer.TooLarge},
	}
	for _, tt := range tests {
		c := tokenizer.New(tokenizer.Config{Transport: tt.server, MaxAnswerBytes: 1000})
		tokens, outcome := c.Tokens(context.Background(), at(one), "m/g", []byte("{}"))
		if outcome != tt.want || tokens != nil {
			t.Errorf("%s: %v, %v; want %v", tt.name, tokens, outcome, tt.want)
		}
	}
	c := tokenizer.New(tokenizer.Config{Transport: fine()})
	if _, outcome := c.Tokens(context.Background(), at(), "m/g", []byte("{}")); outcome != tokenizer.NoEndpoint {
		t.Errorf("nobody to ask: %v", outcome)
	}
}

func TestADeadlineEndsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fine()
		s.delay = time.Hour
		c := tokenizer.New(tokenizer.Config{Transport: s})
		began := time.Now()
		if outcome := ask(c, "a"); outcome != tokenizer.Timeout || time.Since(began) != 50*time.Millisecond {
			t.Errorf("%v after %v, want timeout after 50 ms", outcome, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, outcome := c.Tokens(ctx, at(one), "m/g", []byte("a")); outcome != tokenizer.Left {
			t.Errorf("asked by somebody who left: %v", outcome)
		}
	})
}

func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fine()
		s.delay = 30 * time.Millisecond
		c := tokenizer.New(tokenizer.Config{Transport: s, MaxCalls: 2})
		outcomes := make(chan tokenizer.Outcome)
		for i := range 6 {
			go func() { outcomes <- ask(c, fmt.Sprint(i)) }()
		}
		count := make(map[tokenizer.Outcome]int)
		for range 6 {
			count[<-outcomes]++
		}
		// Two are answered after 30 ms; what begins then runs out of its 50 ms.
		if s.most.Load() != 2 || count[tokenizer.OK] != 2 || count[tokenizer.Timeout] < 2 || count[tokenizer.Timeout]+count[tokenizer.Busy] != 4 {
			t.Errorf("%d at once, outcomes %v; want 2 at once, 2 ok and the others late", s.most.Load(), count)
		}
	})
}

func TestWhoGetsNoTurnIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fine()
		s.delay, s.deaf = time.Minute, true
		c := tokenizer.New(tokenizer.Config{Transport: s, MaxCalls: 1})
		first := make(chan tokenizer.Outcome)
		go func() { first <- ask(c, "a") }()
		synctest.Wait()
		began := time.Now()
		if outcome := ask(c, "b"); outcome != tokenizer.Busy || time.Since(began) != 50*time.Millisecond {
			t.Errorf("%v after %v, want busy after 50 ms", outcome, time.Since(began))
		}
		<-first
	})
}

func TestACircuitOpensAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 500}
		c := tokenizer.New(tokenizer.Config{Transport: s})
		for i := range 5 {
			if outcome := ask(c, "a"); outcome != tokenizer.Failed {
				t.Fatalf("call %d: %v", i, outcome)
			}
		}
		pauses := []time.Duration{1, 2, 4, 8, 16, 30, 30}
		for _, seconds := range pauses {
			time.Sleep(seconds*time.Second - time.Nanosecond)
			if outcome := ask(c, "a"); outcome != tokenizer.Open {
				t.Fatalf("before %ds: %v, want open", seconds, outcome)
			}
			time.Sleep(time.Nanosecond)
			if outcome := ask(c, "a"); outcome != tokenizer.Failed {
				t.Fatalf("after %ds: %v, want a trial that fails", seconds, outcome)
			}
		}
		if got := c.LeftAlone(); len(got) != 1 || got[0] != "http://10.0.0.1:8000/tokenize (failed)" {
			t.Errorf("left alone: %q", got)
		}
		if got, want := int(s.calls.Load()), 5+len(pauses); got != want {
			t.Errorf("%d calls, want %d", got, want)
		}
		s.status, s.body = 200, `{"tokens":[1]}`
		time.Sleep(30 * time.Second)
		for i, want := range []tokenizer.Outcome{tokenizer.OK, tokenizer.Cached} {
			if outcome := ask(c, "a"); outcome != want {
				t.Errorf("repaired, call %d: %v, want %v", i, outcome, want)
			}
		}
		if got := c.LeftAlone(); len(got) != 0 {
			t.Errorf("repaired, left alone: %q", got)
		}
		s.status = 500
		if outcome := ask(c, "b"); outcome != tokenizer.Failed {
			t.Errorf("the first failure after the repair: %v; the circuit must be closed", outcome)
		}
	})
}

func TestOneTrialAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{status: 500}
		c := tokenizer.New(tokenizer.Config{Transport: s})
		for range 5 {
			ask(c, "a")
		}
		time.Sleep(time.Second)
		s.delay = 40 * time.Millisecond
		trial := make(chan tokenizer.Outcome)
		go func() { trial <- ask(c, "a") }()
		synctest.Wait()
		if outcome := ask(c, "b"); outcome != tokenizer.Open {
			t.Errorf("beside a trial: %v, want open", outcome)
		}
		if outcome := <-trial; outcome != tokenizer.Failed {
			t.Errorf("the trial: %v", outcome)
		}
		// An asker who leaves during a trial says nothing, and frees the place.
		time.Sleep(2 * time.Second)
		s.delay = time.Hour
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, outcome := c.Tokens(ctx, at(one), "m/g", []byte("a")); outcome != tokenizer.Left {
			t.Errorf("left: %v", outcome)
		}
		s.delay, s.status, s.body = 0, 200, `{"tokens":[1]}`
		if outcome := ask(c, "a"); outcome != tokenizer.OK {
			t.Errorf("the next trial: %v, want ok", outcome)
		}
	})
}

func TestTheNextEndpointIsAskedWhileTheFirstIsOpen(t *testing.T) {
	s := &server{status: 500}
	c := tokenizer.New(tokenizer.Config{Transport: s})
	two := "http://10.0.0.2:8000/tokenize"
	for range 6 {
		c.Tokens(context.Background(), at(one, two), "m/g", []byte("a"))
	}
	if want := append(slices.Repeat([]string{one}, 5), two); !slices.Equal(s.asked, want) {
		t.Errorf("asked %v, want %v", s.asked, want)
	}
}

func TestARefusedPromptOpensNothing(t *testing.T) {
	s := &server{status: 400}
	c := tokenizer.New(tokenizer.Config{Transport: s})
	for i := range 20 {
		if outcome := ask(c, fmt.Sprint(i)); outcome != tokenizer.Refused {
			t.Fatalf("call %d: %v", i, outcome)
		}
	}
}

func TestARealServerKeepsItsConnection(t *testing.T) {
	var opened atomic.Int32
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != "/tokenize" || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"count":1,"tokens":[%d]}`+"\n", len(body))
	}))
	backend.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	backend.Start()
	defer backend.Close()
	c := tokenizer.New(tokenizer.Config{Deadline: 10 * time.Second})
	defer c.Close()
	for n := range uint32(5) {
		body := strings.Repeat("x", int(n))
		tokens, outcome := c.Tokens(context.Background(), at(backend.URL+"/tokenize"), "m/g", []byte(body))
		if outcome != tokenizer.OK || !slices.Equal(tokens, []uint32{n}) {
			t.Errorf("%d bytes: %v, %v", n, tokens, outcome)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for five calls, want 1", n)
	}
}
