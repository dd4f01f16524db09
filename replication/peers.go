package replication

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	"mooring/internal/fleet"
)

// Peer is what is known of one sending process.
type Peer struct {
	SenderID       uint64
	WriterID       uint64 // whose versions it makes; 0: it has not said
	From           string // where its latest message came from: see Message
	LastHeard      time.Time
	Holes          uint64    // messages that never came, so far
	Differing      int       // sessions that differed at its last digests, estimated
	ConvergedSince time.Time // zero: it differs, or no digest came yet
}

type peer struct {
	Peer
	came     window // by sender_seq
	heardV2  bool
	answered bool // digests of all its partitions came since the join began
	wants    map[fleet.Partition]*wanted
	subsSent map[fleet.Partition]time.Time // when it was told sub-buckets, lately; of partitions that are here

	in *list.List    // of peers
	at *list.Element // its place there
}

const (
	maxPeers   = 256
	peerForget = 10 * time.Minute // how long who is not heard is remembered
)

// peers are those who were heard, by id and in the order in which they were heard
// last.
type peers struct {
	byID   map[uint64]*peer
	silent list.List // those who never sent a digest: ids cost nothing to make up
	others list.List
}

// hear returns the peer of that id, heard now. A new one takes the place of
// another if there are too many: of who was heard least recently of those who
// never sent a digest, or if all did, of all.
func (ps *peers) hear(now time.Time, id uint64) *peer {
	if p := ps.byID[id]; p != nil {
		p.in.MoveToBack(p.at)
		if now.Sub(p.LastHeard) >= quiet {
			p.ConvergedSince = time.Time{} // until it tells its digest
		}
		p.LastHeard = now
		return p
	}
	if len(ps.byID) >= maxPeers {
		oldest := ps.silent.Front()
		if oldest == nil {
			oldest = ps.others.Front()
		}
		ps.drop(oldest.Value.(*peer))
	}
	p := &peer{Peer: Peer{SenderID: id, LastHeard: now}, wants: make(map[fleet.Partition]*wanted), subsSent: make(map[fleet.Partition]time.Time), in: &ps.silent}
	p.at = p.in.PushBack(p)
	ps.byID[id] = p
	return p
}

func (ps *peers) drop(p *peer) {
	p.in.Remove(p.at)
	delete(ps.byID, p.SenderID)
}

// digested notes that p, who was heard last, sent a digest.
func (ps *peers) digested(p *peer) {
	if p.in == &ps.silent {
		p.in.Remove(p.at)
		p.in, p.at = &ps.others, ps.others.PushBack(p)
	}
}

// forget drops who was not heard since the given time.
func (ps *peers) forget(before time.Time) {
	for _, l := range []*list.List{&ps.silent, &ps.others} {
		for e := l.Front(); e != nil && e.Value.(*peer).LastHeard.Before(before); e = l.Front() {
			ps.drop(e.Value.(*peer))
		}
	}
}

// othersSpeak notes that something came from an endpoint that is none of ours: if
// our own messages came back from there, its name or address is another's now.
func (c *Core) othersSpeak(from string) {
	if from == c.echoes {
		c.echoes = ""
	}
}

// hear notes a message of a sender.
func (c *Core) hear(now time.Time, id, seq uint64, from string) *peer {
	c.othersSpeak(from)
	p := c.peers.hear(now, id)
	p.From = from
	if seq == 0 {
		return p
	}
	if p.came.newest == 0 {
		p.came.startAt(seq)
	}
	last := p.came.newest
	switch fresh, skipped := p.came.take(seq); {
	case skipped > 0:
		p.Holes += skipped
		if c.cfg.ablate.holesTrigger {
			c.nextHello = now
		}
	case fresh && seq < last && p.Holes > 0:
		p.Holes-- // it was only late
	}
	return p
}

// Peers returns what is known of the peers, ordered by id.
func (c *Core) Peers() []Peer {
	peers := make([]Peer, 0, len(c.peers.byID))
	for _, p := range c.peers.byID {
		peers = append(peers, p.Peer)
	}
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.SenderID, b.SenderID) })
	return peers
}
