package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// explained is what tests look at in the answer of POST /v1/explain.
type explained struct {
	Decision, Reason, Why, Address string
	WorkerID                       string  `json:"worker_id"`
	Rank                           *uint32 `json:"dp_rank"`
	Prompt                         struct {
		Source, Problem string
		Tokens          int
		Blocks          int
	}
	Candidates []explainedCandidate
}

type explainedCandidate struct {
	Address string
	Rank    *uint32 `json:"dp_rank"`
	Wins    bool
	Device  int `json:"device_blocks"`
	Host    int `json:"host_blocks"`
	Holed   bool
	KV      struct{ State, Reason string }
	Credit  float64
	Cost    *float64 // nil: the prompt is not known
}

// explain asks where a new session's chat would go, which changes nothing.
func (s *stack) explain(session, topic string) explained {
	s.t.Helper()
	return s.explainBody(session, chatBody(topic, "Who asks in "+session+"?"))
}

func (s *stack) explainBody(session string, body []byte) explained {
	s.t.Helper()
	request, _ := json.Marshal(map[string]any{"headers": map[string]string{"x-session-id": session}, "body": json.RawMessage(body)})
	resp, err := http.Post(s.admin+"/v1/explain", "application/json", bytes.NewReader(request))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var e explained
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || resp.StatusCode != http.StatusOK || e.Decision != "route" {
		s.t.Fatalf("explain: %v, status %d: %+v", err, resp.StatusCode, e)
	}
	return e
}

// at is what a candidate was judged by.
func (e explained) at(t *testing.T, w *simWorker) explainedCandidate {
	t.Helper()
	for _, c := range e.Candidates {
		if c.Address == w.address {
			return c
		}
	}
	t.Fatalf("%s is no candidate: %+v", w.address, e)
	panic("not reached")
}

// wouldGo counts for how many of n new sessions about a topic a worker would win.
func (s *stack) wouldGo(n int, topic string, w *simWorker) int {
	s.t.Helper()
	to := 0
	for i := range n {
		if s.explain(fmt.Sprintf("%s-%d", topic, i), topic).Address == w.address {
			to++
		}
	}
	return to
}
