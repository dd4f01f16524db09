package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// kvYAML has the choice wait for the tokenizer as long as a slow machine under the
// race detector needs, and tells clients the reason of it.
const kvYAML = `
session: {expose: true}
request: {deadline: 10s}
routing: {tokenizer: {deadline: 8s}}
`

// newKVStack starts a stack without a mesh, whose workers publish KV events as
// their flags say. They are in the workers file with the sockets they bound.
func newKVStack(t *testing.T, cfg stackConfig) *stack {
	t.Helper()
	cfg.replication = `{listen: ""}`
	if cfg.yaml == "" {
		cfg.yaml = kvYAML
	}
	if cfg.workerKeys == nil {
		cfg.workerKeys = kvKeys
	}
	return newStack(t, cfg)
}

// kvKeys names the ranks and the KV event sockets of a worker.
func kvKeys(w *simWorker) string {
	keys := fmt.Sprintf(", ranks: %v", w.ready["ranks"])
	for _, key := range []string{"kv_events", "kv_replay"} {
		if at, ok := w.ready[key]; ok {
			keys += fmt.Sprintf(", %s: %q", key, at)
		}
	}
	return keys
}

// kvSockets has a worker publish and replay its events, on free ports.
func kvSockets() []string {
	return []string{"--kv-events", "tcp://127.0.0.1:0", "--kv-replay", "tcp://127.0.0.1:0"}
}

// kvWorker is what tests look at in /v1/workers.
type kvWorker struct {
	ID      string `json:"worker_id"`
	Address string
	State   string
	Blocks  int
	KV      struct{ State, Reason string }
}

// kvOwner is what tests look at in /v1/projection.
type kvOwner struct {
	Owner, Resolution, Reason, Problem string
	Reasons, Mismatches                []string
	WorkerID                           string `json:"worker_id"`
	DPRank                             uint32 `json:"dp_rank"`
	Barrier, Cursor                    string
	Holed, Shared                      bool
}

// known is what the replica says of a worker.
func (s *stack) known(w *simWorker) kvWorker {
	s.t.Helper()
	var answer struct{ Workers []kvWorker }
	s.get("/v1/workers", &answer)
	for _, known := range answer.Workers {
		if known.Address == w.address {
			return known
		}
	}
	s.t.Fatalf("no worker %s in %v", w.address, answer)
	panic("not reached")
}

func (s *stack) owners() []kvOwner {
	s.t.Helper()
	var answer struct{ Owners []kvOwner }
	s.get("/v1/projection", &answer)
	return answer.Owners
}

// ownerOf is the only cache owner that is attached to a rank of a worker.
func (s *stack) ownerOf(w *simWorker, rank uint32) kvOwner {
	s.t.Helper()
	id := s.known(w).ID
	var found []kvOwner
	for _, o := range s.owners() {
		if o.WorkerID == id && o.DPRank == rank {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		s.t.Fatalf("cache owners of worker %s, rank %d: %+v, want one", w.address, rank, found)
	}
	return found[0]
}

// full is how many full blocks a worker says are cached in a tier.
func (w *simWorker) full(tier string) int {
	w.t.Helper()
	return int(metricAt(w.t, "http://"+w.address+"/metrics", "simworker_blocks", "tier", tier))
}

// inStep waits until the replica's index has as many blocks of each worker as that
// says it has, and every owner is ready.
func (s *stack) inStep(workers ...*simWorker) {
	s.t.Helper()
	state := ""
	defer s.ifFailed(&state)
	for _, w := range workers {
		eventually(s.t, 10*time.Second, "the index has the blocks of "+w.address, func() bool {
			k, own := s.known(w), w.full("device")
			state = fmt.Sprintf("%s: %s, %d blocks known, %d there", w.address, k.KV.State, k.Blocks, own)
			return k.KV.State == "ready" && k.Blocks == own && own > 0
		})
	}
}

// ifFailed logs what was seen last by a test that has failed.
func (s *stack) ifFailed(state *string) {
	if s.t.Failed() {
		s.t.Log(*state)
	}
}

// systemPrompt is a prompt of some 350 tokens that has no block in common with
// that of another topic.
func systemPrompt(topic string) string {
	return topic + " is your only subject. " + strings.Repeat("Answer with care, name your sources, and say so if you do not know. ", 14)
}

// ask opens or continues a session with a system prompt and a question of its own.
func (s *stack) ask(session, topic, question string) reply {
	s.t.Helper()
	return s.mustPost("/v1/chat/completions", session, chatBody(topic, question))
}

func chatBody(topic, question string) []byte {
	body, _ := json.Marshal(map[string]any{
		"model": "sim", "max_tokens": 4,
		"messages": []message{{"system", systemPrompt(topic)}, {"user", question}},
	})
	return body
}

func (s *stack) mustPost(path, session string, body []byte) reply {
	s.t.Helper()
	r, err := post(http.DefaultClient, s.gateway, path, body, map[string]string{"X-Session-Id": session})
	if err != nil || r.status != http.StatusOK {
		s.t.Fatalf("session %s: %v, status %d: %s", session, err, r.status, r.body)
	}
	return r
}

// seed has an operator pin a session to a worker, or a rank of it as ADDRESS:RANK,
// and says something there about a topic, so that its cache has the system prompt.
func (s *stack) seed(target, topic string) {
	s.t.Helper()
	session := "seed-" + topic
	if status, answer := s.call(http.MethodPut, session, fmt.Sprintf(`{"target":%q}`, target)); status != http.StatusOK {
		s.t.Fatalf("pin %s to %s: status %d: %s", session, target, status, answer)
	}
	r := s.ask(session, topic, "What is it?")
	if at := r.header.Get("X-Sim-Worker"); !strings.HasPrefix(target, at) {
		s.t.Fatalf("pinned to %s, served at %s", target, at)
	}
}

// tokens are the ids of a chat that begins with a system prompt and has nothing
// else, as a worker gives them.
func (s *stack) tokens(w *simWorker, topic string) []uint32 {
	s.t.Helper()
	body, _ := json.Marshal(map[string]any{"add_generation_prompt": false, "messages": []message{{"system", systemPrompt(topic)}}})
	var answer struct{ Tokens []uint32 }
	if err := json.Unmarshal([]byte(w.tell("/tokenize", string(body))), &answer); err != nil || len(answer.Tokens) < 300 {
		s.t.Fatalf("%d tokens: %v", len(answer.Tokens), err)
	}
	return answer.Tokens
}

// tell posts something to a worker itself and returns its answer.
func (w *simWorker) tell(path, body string) string {
	w.t.Helper()
	r, err := post(http.DefaultClient, w.address, path, []byte(body), nil)
	if err != nil || r.status >= 300 {
		w.t.Fatalf("%s%s: %v, status %d: %s", w.address, path, err, r.status, r.body)
	}
	return string(r.body)
}
