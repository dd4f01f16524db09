package simworker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mooring/internal/zmqsock"
	"mooring/kvstate"
)

// numbered returns an agent that has published 8 events, of which it keeps 4:
// the barrier, then three stores of the host pool and of the engine in turn,
// and one removal.
func numbered(t testing.TB) *agent {
	t.Helper()
	a := attachedAgent(t)
	c := filled(3, namespace{})
	for i := range 3 {
		for _, host := range []bool{true, false} {
			a.apply(storing(c, i, host))
		}
	}
	a.apply([]change{{kind: blocksRemoved, keys: c.keys[2:3]}})
	return a
}

// storing is the storing of the i-th block of a chain.
func storing(c *chain, i int, host bool) []change {
	j := newJournal(1)
	j.stored(c, []span{{i, i + 1}}, host)
	return j.open
}

// attachedAgent returns an agent that has published one event, the barrier.
func attachedAgent(t testing.TB) *agent {
	t.Helper()
	cfg, err := Config{BlockSize: 2, Agent: StateAgent{Dir: t.TempDir(), WorkerID: 17, PublisherID: 41, Buffer: 4}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAgent(cfg, 3)
	if err != nil {
		t.Fatal(err)
	}
	if a.publisher, err = zmqsock.Listen(context.Background(), zmqsock.PublisherConfig{Endpoint: "tcp://127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.publisher.Close() })
	a.control.Transport = kvstate.Transport{Kind: kvstate.HTTP, Address: "http://127.0.0.1:1"}
	if err := a.attach(a.home); err != nil {
		t.Fatal(err)
	}
	return a
}

// outcome says in one line what an answer is.
func outcome(r kvstate.QueryResponse) string {
	events := func(list []kvstate.RouterEvent) (s string) {
		for _, e := range list {
			s += fmt.Sprintf(" %d:%s/%s/%d", e.EventID, e.Kind, e.Tier, len(e.Store.Blocks)+len(e.Removed))
		}
		return s
	}
	switch {
	case r.StateAgentRecovery != nil:
		generation := "-"
		if g := r.StateAgentRecovery.Receipt.AttachmentGeneration; g != nil {
			generation = fmt.Sprint(*g)
		}
		return fmt.Sprintf("%s; receipt %s through %d", outcome(r.StateAgentRecovery.Response), generation, r.StateAgentRecovery.Receipt.RecoveredThroughCursor)
	case r.Events != nil:
		return fmt.Sprintf("events%s to %d", events(r.Events.Events), r.Events.LastEventID)
	case r.TreeDump != nil:
		return fmt.Sprintf("dump%s at %d", events(r.TreeDump.Events), r.TreeDump.LastEventID)
	case r.TooNew != nil:
		return fmt.Sprintf("too new, newest is %d", r.TooNew.NewestAvailable)
	case r.InvalidRange != nil:
		return "invalid range"
	case r.Status != nil:
		return fmt.Sprintf("status %d at %d", r.Status.Attachment.Generation, r.Status.OutboundCursor)
	}
	return "error: " + *r.Error
}

// Every question gets the answer of the base's section 3.5.
func TestAgentAnswers(t *testing.T) {
	a := numbered(t)
	with := func(op kvstate.QueryOp, change func(*kvstate.QueryRequest)) kvstate.QueryRequest {
		generation := uint64(1)
		q := kvstate.QueryRequest{WorkerID: 17, DPRank: 3, Kind: kvstate.QueryKind{Op: op, Expected: a.identity, ExpectedAttachmentGeneration: &generation}}
		if op == kvstate.QueryRecovery {
			q.Kind = kvstate.QueryKind{}
		}
		if change != nil {
			change(&q)
		}
		return q
	}
	ranged := func(start, end uint64) func(*kvstate.QueryRequest) {
		return func(q *kvstate.QueryRequest) {
			q.StartEventID = &start
			if end > 0 {
				q.EndEventID = &end
			}
		}
	}
	const (
		status, recovery, legacy = kvstate.QueryStatus, kvstate.QueryStateAgentRecovery, kvstate.QueryRecovery
		full                     = "dump 8:stored/device/2 8:stored/host_pinned/3 at 8"
	)
	for _, c := range []struct {
		name string
		q    kvstate.QueryRequest
		want string
	}{
		{"status", with(status, nil), "status 1 at 8"},
		{"status of any generation", with(status, func(q *kvstate.QueryRequest) { q.Kind.ExpectedAttachmentGeneration = nil }), "status 1 at 8"},
		{"status of another generation", with(status, func(q *kvstate.QueryRequest) { *q.Kind.ExpectedAttachmentGeneration = 2 }), "error: attachment generation 2"},
		{"status of another agent", with(status, func(q *kvstate.QueryRequest) { q.Kind.Expected.PublisherID++ }), "error: another agent"},
		{"full state", with(recovery, nil), full + "; receipt 1 through 8"},
		{"of another worker", with(recovery, func(q *kvstate.QueryRequest) { q.WorkerID++ }), "error: worker 18, rank 3"},
		{"of another rank", with(recovery, func(q *kvstate.QueryRequest) { q.DPRank++ }), "error: worker 17, rank 4"},
		{"the cache owner's", with(recovery, func(q *kvstate.QueryRequest) { q.Kind.ExpectedAttachmentGeneration, q.WorkerID = nil, 0 }), "dump 8:stored/host_pinned/3 at 8; receipt - through 8"},
		{"the cache owner's of another rank", with(recovery, func(q *kvstate.QueryRequest) { q.Kind.ExpectedAttachmentGeneration, q.DPRank = nil, 0 }), "error: rank 0"},
		{"a range", with(recovery, ranged(6, 7)), "events 6:stored/host_pinned/1 7:stored/device/1 to 7; receipt 1 through 7"},
		{"a range to the end", with(recovery, ranged(8, 0)), "events 8:removed/device/1 to 8; receipt 1 through 8"},
		{"a range beyond the end", with(recovery, ranged(8, 20)), "events 8:removed/device/1 to 8; receipt 1 through 8"},
		{"the first that is kept", with(recovery, ranged(5, 5)), "events 5:stored/device/1 to 5; receipt 1 through 5"},
		{"a range that is gone", with(recovery, ranged(4, 5)), full + "; receipt 1 through 8"},
		{"a range to come", with(recovery, ranged(9, 0)), "too new, newest is 8; receipt 1 through 8"},
		{"no range", with(recovery, ranged(6, 5)), "invalid range; receipt 1 through 8"},
		{"by a router of old", with(legacy, nil), "dump 8:stored/device/2 at 8"},
		{"a range by a router of old", with(legacy, ranged(6, 0)), "events 7:stored/device/1 8:removed/device/1 to 8"},
		{"by a router of old, another worker", with(legacy, func(q *kvstate.QueryRequest) { q.WorkerID = 1 }), "error: worker 1"},
	} {
		if got := outcome(a.answer(&c.q)); !strings.HasPrefix(got, c.want) || !strings.HasPrefix(c.want, "error") && got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// What is kept for ranges does not grow, and is always the newest.
func TestAgentKeepsTheLast(t *testing.T) {
	a, c := attachedAgent(t), filled(100, namespace{})
	for i := range 100 {
		a.apply(storing(c, i, true))
		if len(a.mu.ring) > 2*a.cfg.Buffer {
			t.Fatalf("%d events are kept", len(a.mu.ring))
		}
		generation, start := uint64(1), a.mu.cursor-1
		q := kvstate.QueryRequest{WorkerID: 17, DPRank: 3, StartEventID: &start, Kind: kvstate.QueryKind{
			Op: kvstate.QueryStateAgentRecovery, Expected: a.identity, ExpectedAttachmentGeneration: &generation,
		}}
		if r := a.answer(&q).StateAgentRecovery.Response.Events; r == nil || len(r.Events) != 2 || r.LastEventID != a.mu.cursor {
			t.Fatalf("range from %d: %+v", start, r)
		}
	}
}

// Whatever is asked, there is one answer, and it can be written.
func FuzzAgentAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"worker_id":17,"dp_rank":3}`, `{"worker_id":17,"dp_rank":3,"start_event_id":0,"end_event_id":18446744073709551615}`,
		`{"worker_id":17,"dp_rank":3,"start_event_id":18446744073709551615}`, `{"worker_id":1.5}`, `[]`, `{"kind":{"status":{}}}`,
	} {
		f.Add([]byte(seed), byte(0), uint64(6), uint64(7))
	}
	a := numbered(f)
	f.Fuzz(func(t *testing.T, body []byte, op byte, start, end uint64) {
		q := kvstate.QueryRequest{WorkerID: 17, DPRank: 3, StartEventID: &start, EndEventID: &end}
		if json.Unmarshal(body, &q) == nil {
			q.Kind.Op, q.Kind.Expected = kvstate.QueryOp(op%3), a.identity
		}
		for fault := range AgentBehind + 1 {
			a.setFault(fault)
			if _, err := json.Marshal(a.answer(&q)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// While an engine is being detached its agent has a status, but no recovery.
func TestAgentDetaching(t *testing.T) {
	a := numbered(t)
	if err := a.beginDetach(); err != nil {
		t.Fatal(err)
	}
	generation := uint64(1)
	q := kvstate.QueryRequest{WorkerID: 17, DPRank: 3, Kind: kvstate.QueryKind{
		Op: kvstate.QueryStatus, Expected: a.identity, ExpectedAttachmentGeneration: &generation,
	}}
	if r := a.answer(&q); r.Status == nil || r.Status.Attachment.Ready {
		t.Errorf("status: %s", outcome(r))
	}
	q.Kind.Op = kvstate.QueryStateAgentRecovery
	if r := a.answer(&q); r.Error == nil {
		t.Errorf("recovery: %s", outcome(r))
	}
}

func TestAgentConfigRefused(t *testing.T) {
	good := StateAgent{Dir: "x", WorkerID: 1, PublisherID: 1}
	for want, change := range map[string]func(*StateAgent){
		"worker id is missing": func(a *StateAgent) { a.WorkerID = 0 }, "publisher id is missing": func(a *StateAgent) { a.PublisherID = 0 },
		"at most 512 bytes": func(a *StateAgent) { a.CacheOwner = strings.Repeat("x", 513) }, "buffer -1": func(a *StateAgent) { a.Buffer = -1 },
		"drop -1": func(a *StateAgent) { a.DropEvery = -1 }, "delay 1h": func(a *StateAgent) { a.Delay = 3600e9 },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(Config{Agent: cfg}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}
