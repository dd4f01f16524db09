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
	narrowFrom    = 256     // a bucket of more records is narrowed to sub-buckets first
	refusedFor    = time.Minute
	maxRefused    = 4096                    // of those that are remembered
	wantAgain     = 500 * time.Millisecond  // if something changed since the last want
	wantUnchanged = 6100 * time.Millisecond // if nothing did: at most 10 a minute
	// floorsFullAsks is how many buckets a table whose floors are full asks for. It
	// forgets one floor for each that it gets, and what ends at the same moment ends
	// first at one replica and last at another: two such tables differ in a few
	// buckets for ever, and in all if one is smaller.
	floorsFullAsks = 32
	narrowFor      = 5 * time.Second // how long sub-buckets are waited for
	digestLost     = time.Minute     // a peer that tells no digest of a partition for so long has it no more
)

// wanted is the state of repair with one peer for one partition.
type wanted struct {
	heard        time.Time // its digest
	at           time.Time // the last want
	mine, theirs uint64    // the digests at the last want, in short
	differing    int       // buckets
	lacking      laggards
	narrowing    time.Time // when sub-buckets were asked for; zero: they were not
}

// asking is a want in the making: it names the records held here, and there may
// be more of those than one look allows.
type asking struct {
	peer      uint64
	partition fleet.Partition
	narrowed  bool   // it names sub-buckets
	parts     []part // to be named yet
	msg       SyncMessage
}

// compare looks at a peer's digest, and asks for what differs.
func (c *Core) compare(now time.Time, p *peer, m *SyncMessage) {
	table, ok := c.cfg.Sessions.Table(m.Partition)
	if !ok {
		return
	}
	c.peers.digested(p)
	w := p.wants[m.Partition]
	if w == nil {
		w = &wanted{}
		p.wants[m.Partition] = w
	}
	if len(m.Buckets) > 0 {
		c.compareSubs(now, p, w, table, m)
		return
	}
	w.heard = now
	mine := table.Digest()
	var differs []part
	var theyHave bucketSet
	var mineShort, theirShort uint64
	w.differing = 0
	for i := range mine {
		theirs := binary.BigEndian.Uint64(m.Sums[8*i:])
		mineShort, theirShort = mineShort*31+mine[i], theirShort*31+theirs
		if theirs == mine[i] {
			continue
		}
		w.differing++
		if theirs != 0 { // else there is nothing to be had
			differs = append(differs, part{bucket: byte(i)})
			theyHave.add(byte(i))
		}
	}
	if w.lacking.next(theyHave) {
		c.progress = now
	}
	p.settle(now)
	wait := wantAgain
	if c.ready && (w.mine == mineShort && w.theirs == theirShort || table.AtFloorLimit()) {
		wait = wantUnchanged // while joining, the peer may not have heard the last one: it is only connecting
	}
	if len(differs) == 0 || !w.at.IsZero() && now.Sub(w.at) < wait {
		return
	}
	w.at, w.mine, w.theirs = now, mineShort, theirShort
	c.ask(now, p, w, table, differs)
}

// settle sums up how far the peer differs, in the partitions that it has.
func (p *peer) settle(now time.Time) {
	p.Differing = 0
	maps.DeleteFunc(p.wants, func(_ fleet.Partition, w *wanted) bool { return now.Sub(w.heard) >= digestLost })
	for _, w := range p.wants {
		p.Differing += sessionsIn(w.differing)
	}
	if p.Differing > 0 {
		p.ConvergedSince = time.Time{}
	} else if p.ConvergedSince.IsZero() {
		p.ConvergedSince = now
	}
}

// ask wants the parts of p, of the large ones first to know their sub-buckets.
func (c *Core) ask(now time.Time, p *peer, w *wanted, table *affinity.Table, differs []part) {
	first := c.rng.IntN(len(differs)) // what does not fit this time is not always the same
	differs = slices.Concat(differs[first:], differs[:first])
	switch {
	case c.cfg.ablate.fullAsksAll:
	case table.AtReplicaLimit():
		differs = differs[:1]
	case table.AtFloorLimit():
		differs = differs[:min(len(differs), floorsFullAsks)]
	}
	var small []part
	hello := SyncMessage{Type: Hello, To: p.SenderID, Partition: table.Partition()}
	for _, d := range differs {
		if n := table.BucketLen(d.bucket); n > narrowFrom || n > 0 && c.cfg.ablate.narrowAll {
			hello.Buckets = append(hello.Buckets, d.bucket)
		} else {
			small = append(small, d)
		}
	}
	if len(small) > 0 {
		c.want(p, w, table, small, false)
	}
	if len(hello.Buckets) > 0 {
		w.narrowing = now
		c.sendSync(&hello)
	}
}

// compareSubs looks at the sub-buckets that were asked for.
func (c *Core) compareSubs(now time.Time, p *peer, w *wanted, table *affinity.Table, m *SyncMessage) {
	if m.To != c.cfg.SenderID || w.narrowing.IsZero() || now.Sub(w.narrowing) >= narrowFor {
		return
	}
	w.narrowing = time.Time{}
	var parts []part
	for i, b := range m.Buckets {
		mine := table.SubDigest(b)
		var subs *subSet
		for sub := range mine {
			theirs := binary.BigEndian.Uint64(m.Sums[digestBytes*i+8*sub:])
			if theirs == mine[sub] || theirs == 0 {
				continue
			}
			if subs == nil {
				subs = new(subSet)
				parts = append(parts, part{b, subs})
			}
			subs.add(uint8(sub))
		}
	}
	if len(parts) > 0 {
		c.want(p, w, table, parts, true)
	}
}

// want begins to ask p for parts of the table: whole buckets, or narrowed ones.
// What of that kind was begun before and is not sent yet is forgotten: it is out
// of date.
func (c *Core) want(p *peer, w *wanted, table *affinity.Table, parts []part, narrowed bool) {
	partition := table.Partition()
	c.asks = slices.DeleteFunc(c.asks, func(a *asking) bool {
		return a.peer == p.SenderID && a.partition == partition && a.narrowed == narrowed
	})
	if len(c.asks) >= maxJobs {
		w.at = time.Time{} // the next digest tries again
		return
	}
	c.asks = append(c.asks, &asking{
		peer: p.SenderID, partition: partition, narrowed: narrowed, parts: parts, msg: SyncMessage{Type: Want, To: p.SenderID, Partition: partition},
	})
}

// advanceAsks goes on with the wants in the making, looks at no more than looks
// records and a bucket, and returns how many looks are left.
func (c *Core) advanceAsks(looks int) int {
	for looks > 0 && len(c.asks) > 0 {
		a := c.asks[0]
		table, ok := c.cfg.Sessions.Table(a.partition)
		full := false
		if ok && len(a.parts) > 0 {
			next := a.parts[0]
			c.refs = table.Refs(c.refs[:0], next.bucket)
			looks -= 1 + len(c.refs)
			if full = !a.name(next, c.refs); !full {
				a.parts = a.parts[1:]
			}
		}
		if ok && len(a.parts) > 0 && !full {
			continue
		}
		c.asks = c.asks[1:]
		if ok {
			c.sendWant(&a.msg)
		}
	}
	return looks
}

// name adds a part of the table to the want: which it is, and what is held of it
// here. It reports false, and adds nothing, if that would be too much; but it
// adds the first part in any case, with as much of what is held as there is room.
func (a *asking) name(p part, refs []affinity.Ref) bool {
	before := len(a.msg.Have)
	for _, r := range refs {
		if !p.has(affinity.SubBucketOf(r.Sum)) {
			continue
		}
		if len(a.msg.Have) >= 8*maxHave {
			if before > 0 {
				a.msg.Have = a.msg.Have[:before]
				return false
			}
			break
		}
		a.msg.Have = binary.BigEndian.AppendUint64(a.msg.Have, r.Sum)
	}
	if p.subs == nil {
		a.msg.Buckets = append(a.msg.Buckets, p.bucket)
		return true
	}
	for sub := range 256 {
		if p.subs.has(uint8(sub)) {
			a.msg.Subs = append(a.msg.Subs, p.bucket, uint8(sub))
		}
	}
	return true
}

// sendWant completes m by what was refused lately, and sends it.
func (c *Core) sendWant(m *SyncMessage) {
	for _, sum := range slices.Sorted(maps.Keys(c.refused)) {
		if len(m.Have) < 8*maxHave {
			m.Have = binary.BigEndian.AppendUint64(m.Have, sum)
		}
	}
	c.sendSync(m)
}
