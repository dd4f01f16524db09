package simworker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mooring/kvstate"
)

const (
	agentPublisher = 1<<63 + 41 // more than a float64 or a signed number holds
	agentWorker    = 1<<63 + 17
)

// agentServing is a worker with a state agent, and the router's view of it.
type agentServing struct {
	*serving
	dir  string
	http *http.Client
}

func serveAgent(t *testing.T, cfg Config) *agentServing {
	t.Helper()
	if cfg.Agent.Dir == "" {
		cfg.Agent.Dir = t.TempDir()
	}
	cfg.Agent.WorkerID = agentWorker
	if cfg.Agent.PublisherID == 0 {
		cfg.Agent.PublisherID = agentPublisher
	}
	cfg.BlockSize, cfg.HostBlocks = 4, 100
	ready := make(chan Endpoints, 1)
	cfg.Ready = func(e Endpoints) { ready <- e }
	s := &agentServing{serve(t, cfg), cfg.Agent.Dir, client(t, 1)}
	select {
	case <-ready:
	case err := <-s.ended:
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end(t) })
	return s
}

// end stops the worker, once.
func (s *agentServing) end(t *testing.T) {
	s.stop()
	if s.ended != nil {
		if err := <-s.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		s.ended = nil
	}
}

// records reads a topic's records by their ids.
func records[T any](t *testing.T, dir, topic string) map[string]T {
	t.Helper()
	out := make(map[string]T)
	files, err := os.ReadDir(filepath.Join(dir, topic))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, topic, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var v T
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatalf("%s: %v", f.Name(), err)
		}
		id, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok {
			t.Errorf("file %s", f.Name())
		}
		out[id] = v
	}
	return out
}

func (s *agentServing) sources(t *testing.T) map[string]kvstate.SourceAdvertisement {
	return records[kvstate.SourceAdvertisement](t, s.dir, kvstate.SourceTopic)
}

func (s *agentServing) attachments(t *testing.T) map[string]kvstate.AttachmentAdvertisement {
	return records[kvstate.AttachmentAdvertisement](t, s.dir, kvstate.AttachmentTopic)
}

// query asks the agent at the address that its source record gives.
func (s *agentServing) query(t *testing.T, op kvstate.QueryOp, change func(*kvstate.QueryRequest)) kvstate.QueryResponse {
	t.Helper()
	source := only(t, s.sources(t))
	q := kvstate.QueryRequest{DPRank: source.GlobalDPRank, Kind: kvstate.QueryKind{
		Op: op, Expected: kvstate.AgentIdentity{CacheOwnerID: source.CacheOwnerID, PublisherID: source.PublisherID, ProtocolVersion: source.ProtocolVersion},
	}}
	for _, a := range s.attachments(t) {
		q.WorkerID, q.Kind.ExpectedAttachmentGeneration = a.Worker.WorkerID, &a.AttachmentGeneration
	}
	if change != nil {
		change(&q)
	}
	body, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.http.Post(source.RecoveryControlTarget.Transport.Address, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var r kvstate.QueryResponse
	text := readAll(t, resp.Body)
	if err := json.Unmarshal([]byte(text), &r); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s: %v", resp.StatusCode, text, err)
	}
	return r
}

func only[T any](t *testing.T, records map[string]T) (one T) {
	t.Helper()
	if len(records) != 1 {
		t.Fatalf("%d records: %v", len(records), records)
	}
	for _, one = range records {
	}
	return one
}

// post asks the worker for anything else.
func (s *agentServing) post(t *testing.T, want int, path, body string) string {
	t.Helper()
	resp, err := s.http.Post(s.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer := readAll(t, resp.Body)
	if resp.StatusCode != want {
		t.Fatalf("%s: %d %s, want %d", path, resp.StatusCode, answer, want)
	}
	return answer
}

// resolve decides as a router does on the records, a status and a recovery.
func (s *agentServing) resolve(t *testing.T) (kvstate.Resolution, *kvstate.TreeDumpReply) {
	t.Helper()
	in := kvstate.Inputs{DiscoveryKnown: true, Live: func(kvstate.Worker) bool { return true }}
	for _, source := range s.sources(t) {
		in.Sources, in.Owner = append(in.Sources, source), source.CacheOwnerID
	}
	for _, a := range s.attachments(t) {
		in.Attachments = append(in.Attachments, a)
	}
	in.Status = s.query(t, kvstate.QueryStatus, nil).Status
	var dump *kvstate.TreeDumpReply
	if reply := s.query(t, kvstate.QueryStateAgentRecovery, nil).StateAgentRecovery; reply != nil {
		in.Receipt, dump = &reply.Receipt, reply.Response.TreeDump
	}
	return kvstate.Resolve(in), dump
}

// locals returns the local hashes of the blocks of a dump in one domain, and
// checks that parents come before children.
func locals(t *testing.T, dump *kvstate.TreeDumpReply, domain kvstate.Domain) []uint64 {
	t.Helper()
	seen := make(map[uint64]bool)
	var out []uint64
	for _, e := range dump.Events {
		scope, err := e.Scope()
		if err != nil || e.Kind != kvstate.Stored || scope.All {
			t.Fatalf("%+v: %v", e, err)
		}
		if scope.Domain != domain {
			continue
		}
		if e.Store.HasParent && !seen[e.Store.Parent] {
			t.Errorf("block behind %x comes before it", e.Store.Parent)
		}
		for _, b := range e.Store.Blocks {
			seen[b.External] = true
			out = append(out, b.Local)
		}
	}
	return out
}

// promptOf returns the token ids of a prompt and a completion request for it.
func (s *agentServing) promptOf(t *testing.T, text string) (tokens []token, request string) {
	t.Helper()
	var answer tokenizeAnswer
	request = fmt.Sprintf(`{"prompt":%q,"max_tokens":1}`, text)
	if err := json.Unmarshal([]byte(s.post(t, 200, "/tokenize", request)), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Tokens, request
}

// settle waits until the agent has published at least so many events, and
// returns how many.
func (s *agentServing) settle(t *testing.T, want uint64) uint64 {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		status := s.query(t, kvstate.QueryStatus, nil).Status
		if status.OutboundCursor >= want {
			return status.OutboundCursor
		}
		if time.Now().After(deadline) {
			t.Fatalf("cursor %d, want %d", status.OutboundCursor, want)
		}
	}
}
