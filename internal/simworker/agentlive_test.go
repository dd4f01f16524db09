package simworker

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mooring/kvstate"
)

// mirror is what a router that follows the live events knows, read without any
// of the code that wrote them: blocks by domain and external hash.
type mirror map[string]map[uint64]uint64

// apply reads a message of the live events and returns the number of the last.
func (m mirror) apply(t *testing.T, message kvMessage, expect uint64) (last uint64) {
	t.Helper()
	if len(message) != 3 || string(message[0]) != "kv-state-events-v2" || len(message[1]) != 8 {
		t.Fatalf("frames %x", message)
	}
	for _, v := range unpacked(t, message[2]).([]any) {
		e := v.(map[string]any)
		domain, body := e["residency_domain"].(string), e["event"].(map[string]any)
		last = naiveHash(body["event_id"])
		if expect != 0 && last != expect {
			t.Fatalf("event %d, want %d", last, expect)
		}
		expect = last + 1
		if e["state_source"] == nil || domain == "worker" && (naiveHash(e["worker_id"]) != agentWorker || e["storage_tier"] != "device") ||
			domain == "cache_owner" && e["storage_tier"] != "host_pinned" {
			t.Errorf("%v", e)
		}
		held := m[domain]
		switch data := body["data"].(type) {
		case string:
			if data != "cleared" {
				t.Errorf("data %v", data)
			}
			clear(held)
		case map[string]any:
			if stored, ok := data["stored"].(map[string]any); ok {
				for _, b := range stored["blocks"].([]any) {
					block := b.(map[string]any)
					held[naiveHash(block["block_hash"])] = naiveHash(block["tokens_hash"])
				}
				continue
			}
			for _, h := range data["removed"].(map[string]any)["block_hashes"].([]any) {
				delete(held, naiveHash(h))
			}
		}
	}
	return last
}

// A libzmq subscriber that follows the live events knows at each end what a
// recovery says, in both domains, through stores, evictions and a new engine.
func TestAgentLiveEvents(t *testing.T) {
	s := serveAgent(t, Config{CacheBlocks: 24})
	peer := &kvServing{live: make(chan kvMessage, 1<<12), back: make(chan kvMessage, 1)}
	peer.startPeer(t, s.query(t, kvstate.QueryStatus, nil).Status.EventEndpoint, "tcp://127.0.0.1:1")
	var first kvMessage
	for first == nil { // a subscription needs a moment to arrive, and nothing says when it has
		s.post(t, 200, "/reset_prefix_cache?reset_external=true", "")
		select {
		case first = <-peer.live:
		case <-time.After(5 * time.Millisecond):
		}
	}
	m := mirror{"worker": {}, "cache_owner": {}}
	last := m.apply(t, first, 0)
	batch := binary.BigEndian.Uint64(first[1])
	for round := range 3 {
		for i := range 12 {
			s.post(t, 200, "/v1/completions", fmt.Sprintf(`{"prompt":"a common front of several words and then number %d%d%d","max_tokens":6}`, round, i%5, i))
		}
		if round == 1 {
			s.post(t, 204, "/debug/engine/restart", "")
		}
		var dump *kvstate.TreeDumpReply
		for dump == nil || dump.LastEventID != last { // until both are at the same event
			_, dump = s.resolve(t)
			for last < dump.LastEventID {
				message := get(t, peer.live, "live events")
				if batch++; binary.BigEndian.Uint64(message[1]) != batch {
					t.Fatalf("batch %d, want %d", binary.BigEndian.Uint64(message[1]), batch)
				}
				last = m.apply(t, message, last+1)
			}
		}
		for _, e := range dump.Events {
			for _, b := range e.Store.Blocks {
				if local, ok := m[e.Domain.Name][b.External]; !ok || local != b.Local {
					t.Errorf("round %d: block %x of %s is not known", round, b.External, e.Domain.Name)
				}
				delete(m[e.Domain.Name], b.External)
			}
		}
		if len(m["worker"])+len(m["cache_owner"]) != 0 {
			t.Errorf("round %d: %d and %d blocks are known beyond the recovery", round, len(m["worker"]), len(m["cache_owner"]))
		}
		for _, e := range dump.Events {
			for _, b := range e.Store.Blocks {
				m[e.Domain.Name][b.External] = b.Local
			}
		}
	}
}

// A new process takes over the records of its cache owner, and no others.
func TestAgentTakesOver(t *testing.T) {
	dir := t.TempDir()
	old := serveAgent(t, Config{Agent: StateAgent{Dir: dir, CacheOwner: "pool"}})
	other := serveAgent(t, Config{Agent: StateAgent{Dir: dir, CacheOwner: "elsewhere", PublisherID: 5}})
	junk := filepath.Join(dir, kvstate.SourceTopic, "7.json")
	if err := os.WriteFile(junk, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	heir := serveAgent(t, Config{Agent: StateAgent{Dir: dir, CacheOwner: "pool", PublisherID: 6}})
	if err := os.Remove(junk); err != nil {
		t.Errorf("what is no record was removed: %v", err)
	}
	got := heir.sources(t)
	if len(got) != 2 || got["5"].PublisherID != 5 || got["6"].PublisherID != 6 || got["5"].CacheOwnerID == got["6"].CacheOwnerID {
		t.Errorf("sources %v", got)
	}
	if n := len(heir.attachments(t)); n != 2 {
		t.Errorf("%d attachments", n)
	}
	old.end(t) // and leaves those of others alone
	other.end(t)
	if r, _ := heir.resolve(t); r.State != kvstate.Ready || r.Owner != got["6"].CacheOwnerID {
		t.Errorf("%+v", r)
	}
}

// A dump against a list of what was stored: everything once, chains intact, and
// no block before its parent if that is held.
func TestDumpHoldsEverything(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		var r residency
		want := make(map[uint64]kvstate.StoreData)
		for range rng.IntN(40) {
			if rng.IntN(3) == 0 {
				h := uint64(rng.IntN(30))
				r.remove([]uint64{h})
				delete(want, h)
				continue
			}
			s := kvstate.StoreData{Parent: uint64(rng.IntN(30)), HasParent: rng.IntN(4) > 0}
			for i := range rng.IntN(4) { // parents have lower hashes, as no block is its own ancestor
				h := s.Parent + uint64(i) + 1
				s.Blocks = append(s.Blocks, kvstate.Block{External: h, Local: h * 7})
				want[h] = kvstate.StoreData{Parent: h - 1, HasParent: s.HasParent || i > 0}
			}
			r.store(&s)
		}
		out := make(map[uint64]bool)
		for _, s := range r.dump() {
			parent, hasParent := s.Parent, s.HasParent
			for _, b := range s.Blocks {
				w, ok := want[b.External]
				if !ok || out[b.External] || w.HasParent != hasParent || hasParent && w.Parent != parent || b.Local != b.External*7 {
					t.Fatalf("block %d behind %d (%v): want %+v, %v, out already %v", b.External, parent, hasParent, w, ok, out[b.External])
				}
				if _, held := want[parent]; hasParent && held && !out[parent] {
					t.Fatalf("block %d comes before its parent", b.External)
				}
				out[b.External] = true
				parent, hasParent = b.External, true
			}
		}
		if len(out) != len(want) {
			t.Fatalf("%d blocks of %d", len(out), len(want))
		}
	}
}

// Withheld batches do not come live, but a range has their events.
func TestAgentWithholds(t *testing.T) {
	s := serveAgent(t, Config{Agent: StateAgent{DropEvery: 2}})
	peer := &kvServing{live: make(chan kvMessage, 1<<12), back: make(chan kvMessage, 1)}
	peer.startPeer(t, s.query(t, kvstate.QueryStatus, nil).Status.EventEndpoint, "tcp://127.0.0.1:1")
	var seen []kvMessage
	for len(seen) < 3 {
		s.post(t, 200, "/reset_prefix_cache", "")
		select {
		case m := <-peer.live:
			seen = append(seen, m)
		case <-time.After(5 * time.Millisecond):
		}
	}
	for _, m := range seen {
		if batch := binary.BigEndian.Uint64(m[1]); batch%2 != 0 {
			t.Errorf("batch %d came", batch)
		}
	}
	last := mirror{}.apply(t, seen[2], 0)
	start := last - 1
	reply := s.query(t, kvstate.QueryStateAgentRecovery, func(q *kvstate.QueryRequest) { q.StartEventID, q.EndEventID = &start, &last })
	if events := reply.StateAgentRecovery.Response.Events; events == nil || len(events.Events) != 2 || events.LastEventID != last {
		t.Errorf("range %d to %d: %s", start, last, outcome(reply))
	}
}
