package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestKVNewConversationsGoToTheirSystemPrompt holds three conversations, one on
// each worker, and then opens new ones that share the second's system prompt.
func TestKVNewConversationsGoToTheirSystemPrompt(t *testing.T) {
	t.Parallel()
	s := newKVStack(t, stackConfig{workerFlags: kvSockets()})
	s.seedThree()
	t.Run("messages", func(t *testing.T) {
		s.wantTrials(t, 100, s.workers[1], func(i int) reply {
			return s.ask(fmt.Sprint("text-", i), "Botany", fmt.Sprintf("Question %d, of its own.", i))
		})
	})
	t.Run("token ids", func(t *testing.T) {
		front := s.tokens(s.workers[1], "Botany")
		asked := s.tokenizations()
		s.wantTrials(t, 100, s.workers[1], func(i int) reply {
			return s.mustPost("/v1/completions", fmt.Sprint("ids-", i), promptBody(front, i))
		})
		if more := s.tokenizations() - asked; more != 0 {
			t.Errorf("%d calls of a tokenizer for prompts that are token ids", more)
		}
	})
	t.Run("the others", func(t *testing.T) {
		for i, topic := range topics() {
			s.wantTrials(t, 10, s.workers[i], func(i int) reply {
				return s.ask(fmt.Sprint(topic, i), topic, fmt.Sprintf("Question %d, once more.", i))
			})
		}
	})
	t.Run("explain", s.checkExplain)
}

// topics are those of seedThree.
func topics() []string { return []string{"Astronomy", "Botany", "Chess"} }

// seedThree holds a conversation on each of the first three workers.
func (s *stack) seedThree() {
	s.t.Helper()
	for i, topic := range topics() {
		s.seed(s.workers[i].address, topic)
	}
	s.inStep(s.workers[:3]...)
}

// wantTrials wants more than 95 of 100 new sessions to go to a worker.
func (s *stack) wantTrials(t *testing.T, n int, w *simWorker, ask func(i int) reply) {
	t.Helper()
	s.equalLoad()
	there := 0
	for i := range n {
		s.checkNothingLive()
		r := ask(i)
		if r.header.Get("X-Sim-Worker") == w.address {
			there++
		}
		if reason := r.header.Get("X-Mooring-Reason"); reason != "new" {
			t.Errorf("trial %d: reason %q, want new", i, reason)
		}
	}
	t.Logf("%d of %d new conversations went to the worker that holds their system prompt", there, n)
	if there*100 <= 95*n {
		t.Errorf("%d of %d went to %s, want more than 95 of 100", there, n, w.address)
	}
}

// equalLoad waits until a prompt that nobody knows would cost the same everywhere.
func (s *stack) equalLoad() {
	s.t.Helper()
	eventually(s.t, 10*time.Second, "the workers' load is equal", func() bool {
		e := s.explain("equal", "Nothing known")
		for _, c := range e.Candidates {
			if c.Cost == nil || *c.Cost != *e.Candidates[0].Cost {
				return false
			}
		}
		return true
	})
}

// promptBody is a completion of token ids: those of front, and 40 of its own.
func promptBody(front []uint32, own int) []byte {
	tokens := append([]uint32(nil), front...)
	for i := range 40 {
		tokens = append(tokens, uint32(256+(own+i)%256))
	}
	body, _ := json.Marshal(map[string]any{"model": "sim", "max_tokens": 4, "prompt": tokens})
	return body
}

// checkExplain asks `extproc explain` as an operator would, and then sends what was
// explained.
func (s *stack) checkExplain(t *testing.T) {
	for i, topic := range []string{"Astronomy", "Botany", "Chess", "Dance"} {
		body := chatBody(topic, "What did you explain?")
		file := filepath.Join(t.TempDir(), "request.json")
		if err := os.WriteFile(file, body, 0o600); err != nil {
			t.Fatal(err)
		}
		s.checkNothingLive()
		out, err := exec.Command(binary, "explain", "--admin", s.admin, "--file", file, "--header", "x-session-id=explained "+topic).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		r := s.mustPost("/v1/chat/completions", "explained "+topic, body)
		at := s.workers[s.indexOf(r.header.Get("X-Sim-Worker"))]
		want := fmt.Sprintf("route to worker %s rank 0 at %s: %s\n", s.known(at).ID, at.address, r.header.Get("X-Mooring-Reason"))
		if !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: the next request was %s, explained was\n%s", topic, want, out)
		}
		if i < len(topics()) && at != s.workers[i] {
			t.Errorf("%s went to %s, want its holder %s", topic, at.address, s.workers[i].address)
		}
		t.Logf("%s\n%s", topic, out)
	}
}
