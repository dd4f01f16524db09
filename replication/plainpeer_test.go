package replication_test

import (
	"time"

	"mooring/internal/fleet"
	"mooring/replication"
)

// plainPeer is a peer that is no replica of ours: it knows the v1 topic and none
// of our keys, numbers what it binds from the time of its start, merges by the
// rules of its own kind, and publishes a binding when it commits a request and
// again when the request ends.
type plainPeer struct {
	ttl     time.Duration
	parts   int
	writer  uint64
	next    uint64
	entries map[string]*plainEntry
	running []replication.BindingEvent // what its requests were committed to
	out     []replication.Message
}

type plainEntry struct {
	event    replication.BindingEvent
	deadline time.Time
}

func newPlainPeer(ttl time.Duration, parts int, skew time.Duration) *plainPeer {
	return &plainPeer{ttl: ttl, parts: parts, writer: 88, next: uint64(time.Now().Add(skew).UnixNano()), entries: make(map[string]*plainEntry)}
}

// commit binds the session for a request, if it is not bound, and publishes.
func (p *plainPeer) commit(session string, worker uint64) {
	e := p.entries[session]
	if e == nil || !time.Now().Before(e.deadline) {
		e = &plainEntry{event: plainEvent(session, worker, p.next, p.writer)}
		e.event.ModelName = partOf(session, p.parts).Model
		p.next++
		p.entries[session] = e
	}
	p.running = append(p.running, e.event)
	p.publish(e)
}

// release ends its oldest request, and publishes if the binding is what the
// request was committed to.
func (p *plainPeer) release() {
	if len(p.running) == 0 {
		return
	}
	was := p.running[0]
	p.running = p.running[1:]
	if e := p.entries[was.SessionID]; e != nil && e.event.Sequence == was.Sequence && e.event.WriterID == was.WriterID {
		p.publish(e)
	}
}

func (p *plainPeer) publish(e *plainEntry) {
	e.deadline = time.Now().Add(p.ttl)
	p.out = append(p.out, replication.Message{Topic: replication.TopicV1, Payload: replication.AppendEvent(nil, &e.event)})
}

func plainEvent(session string, worker, sequence, writer uint64) replication.BindingEvent {
	var rank uint32
	return replication.BindingEvent{ModelName: part.Model, RoutingGroup: fleet.DefaultName, SessionID: session, WorkerID: worker, DPRank: &rank, Sequence: sequence, WriterID: writer}
}

func (p *plainPeer) flush() []replication.Message {
	out := p.out
	p.out = nil
	return out
}

func (p *plainPeer) receive(m replication.Message) {
	if m.Topic != replication.TopicV1 {
		return
	}
	ev, err := replication.DecodeEvent(m.Payload)
	if err != nil || ev.WriterID == p.writer || ev.DPRank == nil {
		return
	}
	p.next = max(p.next, ev.Sequence+1)
	e, now := p.entries[ev.SessionID], time.Now()
	newer := func() bool {
		return version{ev.Sequence, ev.WriterID}.above(version{e.event.Sequence, e.event.WriterID})
	}
	same := func() bool { return ev.WorkerID == e.event.WorkerID && ev.Sequence >= e.event.Sequence }
	if e == nil || !now.Before(e.deadline) || same() || newer() {
		kept := plainEvent(ev.SessionID, ev.WorkerID, ev.Sequence, ev.WriterID)
		kept.ModelName = ev.ModelName
		p.entries[ev.SessionID] = &plainEntry{kept, now.Add(p.ttl)}
	}
}
