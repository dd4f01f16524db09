package replication

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

const (
	digestBytes   = 8 * affinity.Buckets
	maxHave       = 1 << 16 // records named in one want: half of MaxPayload
	repairPerSec  = 20_000
	resendAfter   = time.Second
	refusedFor    = time.Minute
	wantAgain     = 500 * time.Millisecond  // if something changed since the last want
	wantUnchanged = 6100 * time.Millisecond // if nothing did: at most 10 a minute
)

// compare looks at a peer's digest, and asks for what differs.
func (c *Core) compare(now time.Time, p *peer, m *SyncMessage) {
	table, ok := c.cfg.Sessions.Table(m.Partition)
	if !ok {
		return
	}
	mine := table.Digest()
	var differs []byte
	var mineShort, theirShort uint64
	for i := range mine {
		theirs := binary.BigEndian.Uint64(m.Sums[8*i:])
		mineShort, theirShort = mineShort*31+mine[i], theirShort*31+theirs
		if theirs != mine[i] {
			differs = append(differs, byte(i))
		}
	}
	w := p.wants[m.Partition]
	if w == nil {
		w = &wanted{}
		p.wants[m.Partition] = w
	}
	w.differing = len(differs)
	p.settle(now)
	if len(differs) == 0 {
		return
	}
	wait := wantAgain
	if w.mine == mineShort && w.theirs == theirShort {
		wait = wantUnchanged
	}
	if !w.at.IsZero() && now.Sub(w.at) < wait {
		return
	}
	w.at, w.mine, w.theirs = now, mineShort, theirShort
	if table.AtReplicaLimit() {
		differs = differs[c.rng.IntN(len(differs)):][:1]
	}
	c.want(p, table, differs)
}

// settle sums up how far the peer differs.
func (p *peer) settle(now time.Time) {
	p.Differing = 0
	for _, w := range p.wants {
		p.Differing += w.differing
	}
	if p.Differing > 0 {
		p.ConvergedSince = time.Time{}
	} else if p.ConvergedSince.IsZero() {
		p.ConvergedSince = now
	}
}

// want asks p for buckets of the table, as many as have can name the records of.
func (c *Core) want(p *peer, table *affinity.Table, buckets []byte) {
	var set [affinity.Buckets]bool
	for _, b := range buckets {
		set[b] = true
	}
	byBucket := make(map[byte][]uint64)
	for _, r := range table.Records(&set) {
		b := affinity.BucketOf(r.Session)
		byBucket[b] = append(byBucket[b], r.Sum)
	}
	m := SyncMessage{Type: Want, To: p.SenderID, Partition: table.Partition()}
	for _, b := range buckets {
		if len(m.Buckets) > 0 && len(m.Have)/8+len(byBucket[b]) > maxHave {
			break
		}
		m.Buckets = append(m.Buckets, b)
		for _, sum := range byBucket[b][:min(len(byBucket[b]), maxHave)] {
			m.Have = binary.BigEndian.AppendUint64(m.Have, sum)
		}
	}
	for _, sum := range slices.Sorted(maps.Keys(c.refused)) {
		if len(m.Have) < 8*maxHave {
			m.Have = binary.BigEndian.AppendUint64(m.Have, sum)
		}
	}
	c.wants++
	c.sendSync(&m)
}

// answer republishes what a want does not name, within the limits.
func (c *Core) answer(now time.Time, m *SyncMessage) {
	table, ok := c.cfg.Sessions.Table(m.Partition)
	if !ok || m.To != c.cfg.SenderID {
		return
	}
	have := make(map[uint64]bool, len(m.Have)/8)
	for b := m.Have; len(b) >= 8; b = b[8:] {
		have[binary.BigEndian.Uint64(b)] = true
	}
	var set [affinity.Buckets]bool
	for _, b := range m.Buckets {
		set[b] = true
	}
	least := min(2*time.Second, table.TTL()/8)
	for _, r := range table.Records(&set) {
		last, sent := c.resent[r.Sum]
		switch {
		case have[r.Sum], r.Life < least, sent && now.Sub(last) < resendAfter:
			continue
		case c.budget == 0:
			return
		}
		c.budget--
		c.resent[r.Sum] = now
		c.sendRecord(table.Partition(), r.Event)
	}
}

// refill gives back the repair budget of the time since the last call, and
// forgets what is no longer recent.
func (c *Core) refill(now time.Time) {
	if now.Sub(c.refilled) < time.Second {
		return
	}
	c.refilled, c.budget = now, repairPerSec
	for sum, at := range c.resent {
		if now.Sub(at) >= resendAfter {
			delete(c.resent, sum)
		}
	}
	for sum, at := range c.refused {
		if now.Sub(at) >= refusedFor {
			delete(c.refused, sum)
		}
	}
	for id, p := range c.peers {
		if now.Sub(p.LastHeard) >= peerForget {
			delete(c.peers, id)
		}
	}
}

// sendDigests tells the sums of all partitions.
func (c *Core) sendDigests() {
	for _, t := range c.cfg.Sessions.Tables() {
		d := t.Digest()
		m := SyncMessage{Type: DigestOf, Partition: t.Partition(), Sums: make([]byte, 0, digestBytes)}
		for _, sum := range d {
			m.Sums = binary.BigEndian.AppendUint64(m.Sums, sum)
		}
		c.sendSync(&m)
	}
	c.sendSync(&SyncMessage{Type: Alive, WriterID: c.cfg.WriterID, Digested: true})
}

// Alive sends a sign of life.
func (c *Core) Alive() { c.sendSync(&SyncMessage{Type: Alive, WriterID: c.cfg.WriterID}) }

// SendEnd tells the replica that picked a request how it ended. It reports false
// if nothing was heard of that replica lately.
func (c *Core) SendEnd(now time.Time, e End) bool {
	p := c.peers[e.Replica]
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

// sendRecord sends a binding or a floor with the life that it has left.
func (c *Core) sendRecord(p fleet.Partition, ev affinity.Event) {
	ms := uint64((ev.Life + time.Millisecond - 1) / time.Millisecond)
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
	payload := AppendEvent(nil, &e)
	c.out = append(c.out, Message{Topic: TopicV2, Payload: payload})
	if c.cfg.PublishV1 {
		c.out = append(c.out, Message{Topic: TopicV1, Payload: payload})
	}
}
