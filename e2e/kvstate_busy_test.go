package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mooring/kvstate"
)

// TestKVIndexFollowsBusyWorkers holds more conversations than the caches have room
// for, many at once, while batches get lost: in the end the index has exactly what
// is left in each cache, and a prompt is found as far as it is there.
func TestKVIndexFollowsBusyWorkers(t *testing.T) {
	t.Parallel()
	s := newKVStack(t, stackConfig{workerFlags: append(kvSockets(), "--cache-blocks", "90"), flagsOfEach: [][]string{
		nil, {"--kv-drop", "4", "--kv-format", "array"}, {"--kv-drop", "3", "--kv-hash", "bytes"},
	}})
	s.keepBusy(func(w *simWorker) { s.allApplied(w, []int{1 << 20, 4, 3}[s.indexOf(w.address)]) })
	for _, w := range s.workers {
		t.Logf("%s: %d batches came, %d were lost, %d blocks left", w.address, w.batches("published"), w.batches("withheld"), w.full("device"))
	}
}

// TestKVAgentsOfBusyWorkers is the same with engines that are known by their state
// agents, whose live events get lost: then some of a prompt is in host memory.
func TestKVAgentsOfBusyWorkers(t *testing.T) {
	t.Parallel()
	small := []string{"--cache-blocks", "60", "--host-blocks", "250"}
	s := newAgentStack(t, small, append(small, "--agent-drop", "3"))
	s.keepBusy(s.allRecovered)
}

// keepBusy holds 40 conversations of three turns. Then it asks for the last of them
// once more, and compares what the router finds of each with what its worker had
// cached. settle waits until the router can know.
func (s *stack) keepBusy(settle func(*simWorker)) {
	s.t.Helper()
	sessions := newConversations("busy", "sim", 40)
	converse(s.t, http1(), s.gateway, sessions, 3)
	for _, w := range s.workers {
		settle(w)
	}
	s.inStep(s.workers...)
	found := 0
	for _, c := range sessions[34:] {
		body, err := json.Marshal(map[string]any{"model": "sim", "max_tokens": 1, "messages": c.messages})
		if err != nil {
			s.t.Fatal(err)
		}
		w := s.workers[s.indexOf(c.workers[0])]
		e := s.explainBody("asks "+c.id, body)
		held := e.at(s.t, w).Device + e.at(s.t, w).Host
		if cached := cachedTokens(s.t, []byte(w.tell("/v1/chat/completions", string(body)))); cached != e.whole(held) {
			s.t.Errorf("%s: %d tokens were cached, the router knew of %d blocks", c.id, cached, held)
		}
		if held > 0 {
			found++
		}
		settle(w)
	}
	s.t.Logf("of %d conversations of %d something was left", found, len(sessions[34:]))
	if found == 0 {
		s.t.Error("nothing was left of any conversation: the test shows nothing")
	}
}

// allApplied waits until every batch of a worker was applied, of which every
// drop-th is lost. That the last one is lost shows only with the next: then there
// is another.
func (s *stack) allApplied(w *simWorker, drop int) {
	s.t.Helper()
	state, more := "", 0
	defer s.ifFailed(&state)
	eventually(s.t, 10*time.Second, "all batches are applied", func() bool {
		all := w.batches("published") + w.batches("withheld")
		applied := int(metricAt(s.t, s.admin+"/metrics", "mooring_kv_feed_batches_total", "worker", w.address))
		state = fmt.Sprintf("%d of %d batches of %s are applied", applied, all, w.address)
		if all > 0 && all%drop == 0 {
			more++
			w.tell("/v1/completions", fmt.Sprintf(`{"model":"sim","max_tokens":1,"prompt":"%d is a prompt of some blocks, enough for some events."}`, more))
			return false
		}
		return applied == all
	})
}

// allRecovered waits until the router has every event of a worker's state agent.
func (s agentStack) allRecovered(w *simWorker) {
	s.t.Helper()
	state := ""
	defer s.ifFailed(&state)
	eventually(s.t, 15*time.Second, "all events of the agent are applied", func() bool {
		o, cursor := s.ownerOf(w, 0), s.cursor(w)
		state = fmt.Sprintf("%s: its agent is at %d, %+v", w.address, cursor, o)
		return o.Resolution == "ready" && !o.Holed && o.Cursor == fmt.Sprint(cursor)
	})
}

// cursor is the number of the last event of a worker's state agent, as that says.
func (s agentStack) cursor(w *simWorker) uint64 {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.records, kvstate.SourceTopic, "*.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	url := "http://" + w.address + "/kv_state/control/0"
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		var source kvstate.SourceAdvertisement
		if err := json.Unmarshal(data, &source); err != nil {
			s.t.Fatal(err)
		}
		if source.RecoveryControlTarget.Transport.Address != url {
			continue
		}
		q := kvstate.QueryRequest{Kind: kvstate.QueryKind{Op: kvstate.QueryStatus, Expected: kvstate.AgentIdentity{
			CacheOwnerID: source.CacheOwnerID, PublisherID: source.PublisherID, ProtocolVersion: source.ProtocolVersion,
		}}}
		body, err := json.Marshal(q)
		if err != nil {
			s.t.Fatal(err)
		}
		resp, err := http.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			s.t.Fatal(err)
		}
		defer resp.Body.Close()
		var r kvstate.QueryResponse
		if err := json.NewDecoder(resp.Body).Decode(&r); err != nil || r.Status == nil {
			s.t.Fatalf("status of %s: %v, %+v", w.address, err, r)
		}
		return r.Status.OutboundCursor
	}
	s.t.Fatalf("no record of %s", url)
	panic("not reached")
}
