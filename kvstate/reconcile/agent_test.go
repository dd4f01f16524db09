package reconcile

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"mooring/internal/zmqsock"
	"mooring/kvstate"
)

// testAgent is a state agent: it numbers events, publishes them, and answers
// queries over HTTP. It keeps all events, and its full state is all of them.
type testAgent struct {
	t      *testing.T
	http   *httptest.Server
	stream *zmqsock.Publisher
	owner  kvstate.CacheOwnerID
	pub    uint64

	mu struct {
		sync.Mutex
		worker     kvstate.Worker
		generation uint64
		barrier    uint64
		events     []kvstate.RouterEvent
		batch      uint64
		asked      []string
	}
}

func newTestAgent(t *testing.T, owner kvstate.CacheOwnerID, pub uint64) *testAgent {
	a := &testAgent{t: t, owner: owner, pub: pub}
	stream, err := zmqsock.Listen(context.Background(), zmqsock.PublisherConfig{Endpoint: "tcp://127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	a.stream = stream
	a.http = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(func() {
		a.http.Close()
		_ = stream.Close()
	})
	return a
}

func (a *testAgent) source() kvstate.SourceAdvertisement {
	s := sourceRecord(a.pub)
	s.CacheOwnerID, s.IndexerDomainID = a.owner, a.owner.Pool.IndexerDomain
	s.RecoveryControlTarget = testTarget(a.http.URL)
	return s
}

// attach makes the next generation and returns its record.
func (a *testAgent) attach(w kvstate.Worker) kvstate.AttachmentAdvertisement {
	a.mu.Lock()
	a.mu.generation++
	a.mu.worker = w
	a.mu.barrier = uint64(len(a.mu.events)) + 1
	r := attachmentRecord(a.pub, a.mu.generation)
	r.CacheOwnerID, r.Worker, r.ReadyAtOutboundCursor = a.owner, w, a.mu.barrier
	r.RecoveryControlTarget = testTarget(a.http.URL)
	a.mu.Unlock()
	a.emit(true, kvstate.RouterEvent{Kind: kvstate.Cleared, Domain: kvstate.InDomain(kvstate.WorkerDomain)})
	return r
}

// emit numbers an event and, unless it is to get lost, publishes it.
func (a *testAgent) emit(published bool, e kvstate.RouterEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.EventID, e.StateSource = uint64(len(a.mu.events))+1, &a.owner
	if e.Domain.Name == kvstate.WorkerDomain.String() {
		e.WorkerID, e.DPRank = a.mu.worker.WorkerID, a.mu.worker.DPRank
	}
	a.mu.events = append(a.mu.events, e)
	if !published {
		return
	}
	payload, err := kvstate.AppendEvents(nil, []kvstate.RouterEvent{e})
	if err != nil {
		a.t.Error(err)
		return
	}
	a.mu.batch++
	number := binary.BigEndian.AppendUint64(nil, a.mu.batch)
	_ = a.stream.Publish([][]byte{[]byte(kvstate.EventTopic), number, payload})
}

func stored(d kvstate.Domain, tier kvstate.Tier, blocks ...uint64) kvstate.RouterEvent {
	e := kvstate.RouterEvent{Kind: kvstate.Stored, Domain: kvstate.InDomain(d), Tier: tier}
	for _, b := range blocks {
		e.Store.Blocks = append(e.Store.Blocks, kvstate.Block{External: b, Local: b})
	}
	return e
}

func (a *testAgent) serve(w http.ResponseWriter, r *http.Request) {
	var q kvstate.QueryRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Method != http.MethodPost {
		http.Error(w, "no query", http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(a.answer(&q))
}

func (a *testAgent) answer(q *kvstate.QueryRequest) kvstate.QueryResponse {
	a.mu.Lock()
	defer a.mu.Unlock()
	identity := kvstate.AgentIdentity{CacheOwnerID: a.owner, PublisherID: a.pub, ProtocolVersion: kvstate.V2}
	cursor := uint64(len(a.mu.events))
	if q.Kind.Op == kvstate.QueryStatus {
		return kvstate.QueryResponse{Status: &kvstate.AgentStatus{
			Identity: identity, CacheOwnerReady: true, OutboundCursor: cursor, EventEndpoint: a.stream.Endpoint(),
			Attachment: &kvstate.AttachmentStatus{Generation: a.mu.generation, Worker: a.mu.worker, Ready: true, ReadyAtOutboundCursor: a.mu.barrier},
		}}
	}
	reply := &kvstate.StateAgentRecoveryReply{Receipt: kvstate.RecoveryReceipt{
		Identity: identity, AttachmentGeneration: &a.mu.generation, RecoveredThroughCursor: cursor}}
	if q.StartEventID == nil {
		a.mu.asked = append(a.mu.asked, "full")
		reply.Response.TreeDump = &kvstate.TreeDumpReply{Events: a.current(), LastEventID: cursor}
	} else {
		a.mu.asked = append(a.mu.asked, "range")
		last := cursor
		if q.EndEventID != nil {
			last = min(last, *q.EndEventID)
		}
		reply.Receipt.RecoveredThroughCursor = last
		reply.Response.Events = &kvstate.EventsReply{Events: slices.Clone(a.mu.events[*q.StartEventID-1 : last]), LastEventID: last}
	}
	return kvstate.QueryResponse{StateAgentRecovery: reply}
}

// current returns the events that matter: those of the owner, and those since the
// engine was attached.
func (a *testAgent) current() []kvstate.RouterEvent {
	var events []kvstate.RouterEvent
	for _, e := range a.mu.events {
		if e.Domain.Name == kvstate.CacheOwnerDomain.String() || e.EventID >= a.mu.barrier {
			events = append(events, e)
		}
	}
	return events
}

func (a *testAgent) wasAsked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.mu.asked)
}
