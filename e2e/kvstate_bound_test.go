package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// tokenizations is how many /tokenize requests the workers remember, of 4096 at most.
func (s *stack) tokenizations() (n int) {
	s.t.Helper()
	for _, w := range s.workers {
		var answer struct{ Requests []json.RawMessage }
		if status, err := fetch("http://"+w.address+"/debug/requests?limit=4096&path=/tokenize", &answer); err != nil || status != http.StatusOK {
			s.t.Fatalf("status %d, %v", status, err)
		}
		n += len(answer.Requests)
	}
	return n
}

// TestKVBoundSessionPaysNothing has the body and a tokenizer asked for by the
// first turn of a session only.
func TestKVBoundSessionPaysNothing(t *testing.T) {
	t.Parallel()
	s := newKVStack(t, stackConfig{models: []string{"sim", "sim"}, workerFlags: kvSockets(), envoyYAML: "body_mode: none"})
	s.seed(s.workers[0].address, "Astronomy")
	s.inStep(s.workers[0])
	for i := range 5 {
		c := &conversation{id: fmt.Sprint("moored-", i), model: "sim", messages: []message{{"system", systemPrompt("Astronomy")}, {"user", fmt.Sprint("I am number ", i)}}}
		for turn := range 4 {
			asked, sent := s.tokenizations(), s.messages()
			r := mustTurn(t, s, c)
			asked, messages := s.tokenizations()-asked, s.messages()-sent
			t.Logf("session %d turn %d: %s, %d tokenizer calls, %d messages to the filter", i, turn, r.header.Get("X-Mooring-Reason"), asked, messages)
			if turn == 0 && (asked != 1 || messages < 2 || r.header.Get("X-Mooring-Reason") != "new") {
				t.Errorf("the first turn took %d tokenizer calls and %d messages (%s)", asked, messages, r.header.Get("X-Mooring-Reason"))
			}
			if turn > 0 && (asked != 0 || messages != 1 || r.header.Get("X-Mooring-Reason") != "bound") {
				t.Errorf("turn %d took %d tokenizer calls and %d messages (%s)", turn, asked, messages, r.header.Get("X-Mooring-Reason"))
			}
		}
		checkStayed(t, c)
		if c.workers[0] != s.workers[0].address || c.cached[0] < 400 {
			t.Errorf("served at %v with %v cached tokens, want the holder of the system prompt, %s", c.workers, c.cached, s.workers[0].address)
		}
	}
}

// TestKVWithoutATokenizerOrRoom has requests served by load alone where no
// tokenizer answers, and refused where every worker is at its limits.
func TestKVWithoutATokenizerOrRoom(t *testing.T) {
	t.Parallel()
	down := freeAddress(t)
	s := newKVStack(t, stackConfig{models: []string{"sim", "sim"}, workerFlags: kvSockets(), yaml: fmt.Sprintf(`
session: {expose: true}
routing:
  tokenizer: {url: "http://%s", deadline: 1s}
  limits: {active_requests: 1}
`, down)})
	s.seed(s.workers[0].address, "Astronomy")
	s.seed(s.workers[1].address, "Botany")
	s.inStep(s.workers...)
	s.wantNoTokens("down", "tokenizer_unreachable")

	var streams []*stream
	for i := range 2 {
		s.checkNothingLiveBut(i)
		streams = append(streams, s.startStream(http1(), fmt.Sprint("busy-", i), 40, 50*time.Millisecond))
	}
	for i := range 3 {
		r, err := post(http1(), s.gateway, "/v1/chat/completions", chatBody("Astronomy", "Is there room?"), map[string]string{"X-Session-Id": fmt.Sprint("late-", i)})
		if err != nil {
			t.Fatal(err)
		}
		if why := (refusal{status: 429, message: "limits"}).check(r); why != "" {
			t.Errorf("%s; got %d %s", why, r.status, r.body)
		}
		if after, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || after < 1 || r.header.Get("X-Mooring-Reason") != "overloaded" {
			t.Errorf("Retry-After %q, reason %q", r.header.Get("Retry-After"), r.header.Get("X-Mooring-Reason"))
		}
	}
	// Whoever is bound queues at its worker.
	if r := s.ask("seed-Astronomy", "Astronomy", "And I?"); r.header.Get("X-Mooring-Reason") != "bound" || r.header.Get("X-Sim-Worker") != s.workers[0].address {
		t.Errorf("the bound session went to %s: %s", r.header.Get("X-Sim-Worker"), r.header.Get("X-Mooring-Reason"))
	}
	for _, st := range streams {
		st.finish()
	}
	s.checkNothingLive()
	s.wantNoTokens("room again", "tokenizer_unreachable")

	// A replica that starts anew learns from the replays what the workers hold.
	s.reconfigure(fmt.Sprintf("http://%s", down), "off")
	s.inStep(s.workers...)
	s.wantNoTokens("off", "no_tokenizer")
}

// checkNothingLiveBut waits until n requests run.
func (s *stack) checkNothingLiveBut(n int) {
	s.t.Helper()
	eventually(s.t, 5*time.Second, fmt.Sprint(n, " live requests"), func() bool {
		live := 0
		for _, w := range s.adminWorkers() {
			live += w.Live
		}
		return live == n
	})
}

// wantNoTokens has a new session served though its prompt's tokens are not known.
func (s *stack) wantNoTokens(session, problem string) {
	s.t.Helper()
	s.checkNothingLive()
	if e := s.explain(session, "Astronomy"); e.Reason != "no_tokens" || e.Prompt.Problem != problem {
		s.t.Errorf("explained: %s, %+v; want no_tokens, %s", e.Reason, e.Prompt, problem)
	}
	if r := s.ask(session, "Astronomy", "Who counts?"); r.header.Get("X-Mooring-Reason") != "no_tokens" {
		s.t.Errorf("%s: reason %q, want no_tokens", session, r.header.Get("X-Mooring-Reason"))
	}
	s.checkNothingLive()
}
