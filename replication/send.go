package replication

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// sendDigests tells the sums of all partitions.
func (c *Core) sendDigests() {
	for _, t := range c.inOrder() {
		c.sendSync(&SyncMessage{Type: DigestOf, Partition: t.Partition(), Sums: appendSums(make([]byte, 0, digestBytes), t.Digest())})
	}
	c.sendSync(&SyncMessage{Type: Alive, WriterID: c.cfg.WriterID, Digested: true})
}

// inOrder returns all tables ordered by partition, so that a simulation repeats.
func (c *Core) inOrder() []*affinity.Table {
	tables := c.cfg.Sessions.Tables()
	slices.SortFunc(tables, func(a, b *affinity.Table) int {
		p, q := a.Partition(), b.Partition()
		return cmp.Or(cmp.Compare(p.Model, q.Model), cmp.Compare(p.Group, q.Group))
	})
	return tables
}

// digestSoon has the digests told now, or as soon as they may be again.
func (c *Core) digestSoon(now time.Time) {
	soon := later(now, c.digestSent.Add(helloEvery))
	if soon.Before(c.nextDigest) {
		c.nextDigest = soon
	}
}

// helloSoon has hello said now, or as soon as it may be again, and until a digest
// answers.
func (c *Core) helloSoon(now time.Time) {
	soon := later(now, c.helloSent.Add(helloEvery))
	if c.helloSince = now; c.nextHello.IsZero() || soon.Before(c.nextHello) {
		c.nextHello = soon
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// appendSums appends the sums as digests have them.
func appendSums(b []byte, d affinity.Digest) []byte {
	for _, sum := range d {
		b = binary.BigEndian.AppendUint64(b, sum)
	}
	return b
}

// Alive sends a sign of life.
func (c *Core) Alive() { c.sendSync(&SyncMessage{Type: Alive, WriterID: c.cfg.WriterID}) }

// SendEnd tells the replica that picked a request how it ended. It reports false
// if nothing was heard of that replica lately.
func (c *Core) SendEnd(now time.Time, e End) bool {
	p := c.peers.byID[e.Replica]
	if p == nil || now.Sub(p.LastHeard) > silence {
		return false
	}
	c.sendSync(&SyncMessage{Type: StreamEnd, To: e.Replica, End: e})
	return true
}

func (c *Core) sendSync(m *SyncMessage) {
	c.sequence++
	m.SenderID, m.SenderSeq = c.cfg.SenderID, c.sequence
	c.out = append(c.out, Message{Topic: TopicSync, Payload: AppendSync(nil, m)})
}

// sendRecord sends a binding or a floor with the life that it has left. The v1
// copy is the same payload, with the same sender_seq.
func (c *Core) sendRecord(p fleet.Partition, ev affinity.Event) {
	ms := c.tellLife(ev.Life)
	if ev.Kind == affinity.EventUnpinned {
		c.sendSync(&SyncMessage{Type: Floor, Partition: p, SessionID: ev.Session, Sequence: ev.Sequence, WriterID: ev.WriterID, TTLMillis: ms})
		return
	}
	c.sequence++
	e := BindingEvent{
		ModelName: p.Model, RoutingGroup: p.Group, SessionID: ev.Session, WorkerID: uint64(ev.Target.Worker), Sequence: ev.Sequence, WriterID: ev.WriterID,
		SenderID: c.cfg.SenderID, SenderSeq: c.sequence, TTLMillis: &ms,
	}
	if ev.Target.Ranked {
		e.DPRank = &ev.Target.Rank
	}
	payload := AppendEvent(make([]byte, 0, eventBytes+len(p.Model)+len(p.Group)+len(ev.Session)), &e)
	c.out = append(c.out, Message{Topic: TopicV2, Payload: payload})
	if c.cfg.PublishV1 {
		c.out = append(c.out, Message{Topic: TopicV1, Payload: payload})
	}
}

// eventBytes bounds what an event takes beside its three texts.
const eventBytes = 192

// tellLife returns a life as ttl_ms has it: rounded up.
func (c *Core) tellLife(life time.Duration) uint64 {
	if c.cfg.ablate.wallDeadlines {
		return uint64(c.cfg.WallNow().Add(life).UnixMilli())
	}
	return uint64((life + time.Millisecond - 1) / time.Millisecond)
}
