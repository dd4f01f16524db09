package replication

import (
	"slices"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// What is told of sub-buckets, to all peers together, by buckets of 2 KiB each.
const (
	subsPerSec = 16 * affinity.Buckets
	subsBurst  = 4 * affinity.Buckets // of those, sent at once after a pause
	subsEvery  = wantAgain            // to one peer of one partition
)

// subsAsked is a peer's hello that asks for sub-buckets and waits for its turn: a
// peer that lacks something of several partitions asks for all of them at once.
type subsAsked struct {
	peer      uint64
	partition fleet.Partition
	buckets   []byte
}

// askedForSubs queues what a peer asks for. A later hello takes the place of one
// that waits.
func (c *Core) askedForSubs(now time.Time, p *peer, m *SyncMessage) {
	_, ok := c.cfg.Sessions.Table(m.Partition)
	if !ok || m.To != c.cfg.SenderID || now.Sub(p.subsSent[m.Partition]) < subsEvery {
		return
	}
	i := slices.IndexFunc(c.subsAsked, func(a subsAsked) bool { return a.peer == p.SenderID && a.partition == m.Partition })
	switch {
	case i >= 0:
		c.subsAsked[i].buckets = slices.Clone(m.Buckets)
	case len(c.subsAsked) < maxJobs: // else it will ask again
		c.subsAsked = append(c.subsAsked, subsAsked{p.SenderID, m.Partition, slices.Clone(m.Buckets)})
	}
}

// tellSubs answers those who asked, in turn, as the allowance permits.
func (c *Core) tellSubs(now time.Time) {
	for c.subs.left > 0 && len(c.subsAsked) > 0 {
		a := c.subsAsked[0]
		c.subsAsked = c.subsAsked[1:]
		table, ok := c.cfg.Sessions.Table(a.partition)
		p := c.peers.byID[a.peer]
		if !ok || p == nil {
			continue
		}
		c.subs.left -= len(a.buckets)
		p.subsSent[a.partition] = now
		reply := SyncMessage{Type: DigestOf, To: a.peer, Partition: a.partition, Buckets: a.buckets, Sums: make([]byte, 0, digestBytes*len(a.buckets))}
		for _, b := range a.buckets {
			reply.Sums = appendSums(reply.Sums, table.SubDigest(b))
		}
		c.sendSync(&reply)
	}
}

// forgetSubs drops what no longer keeps a peer waiting.
func (p *peer) forgetSubs(now time.Time) {
	for partition, at := range p.subsSent {
		if now.Sub(at) >= subsEvery {
			delete(p.subsSent, partition)
		}
	}
}
