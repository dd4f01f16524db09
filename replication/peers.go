package replication

import (
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
	Differing      int       // buckets that differed at its last digests
	ConvergedSince time.Time // zero: it differs, or no digest came yet
}

type peer struct {
	Peer
	came     window // by sender_seq
	heardV2  bool
	digested bool // a digest of a partition that is served here came
	answered bool // digests of all its partitions came since the join began
	wants    map[fleet.Partition]*wanted
	subsSent time.Time // when it was last told sub-buckets
}

const (
	maxPeers   = 256
	peerForget = 10 * time.Minute
)

// hear notes a message of a sender. A new one takes the place of another if
// there are too many.
func (c *Core) hear(now time.Time, id, seq uint64, from string) *peer {
	p := c.peers[id]
	if p == nil {
		if len(c.peers) >= maxPeers {
			c.evictPeer()
		}
		p = &peer{Peer: Peer{SenderID: id}, wants: make(map[fleet.Partition]*wanted)}
		p.came.startAt(max(seq, 1))
		c.peers[id] = p
	}
	p.LastHeard, p.From = now, from
	last := p.came.newest
	switch fresh, skipped := p.came.take(seq); {
	case seq == 0:
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

// evictPeer forgets who was heard least recently of those who never sent a
// digest, or if all did, of all. Sender ids cost nothing to make up.
func (c *Core) evictPeer() {
	var worst *peer
	for _, p := range c.peers {
		if worst == nil || p.digested == worst.digested && p.LastHeard.Before(worst.LastHeard) || !p.digested && worst.digested {
			worst = p
		}
	}
	delete(c.peers, worst.SenderID)
}

// Peers returns what is known of the peers, ordered by id.
func (c *Core) Peers() []Peer {
	peers := make([]Peer, 0, len(c.peers))
	for _, p := range c.peers {
		peers = append(peers, p.Peer)
	}
	slices.SortFunc(peers, func(a, b Peer) int {
		if a.SenderID < b.SenderID {
			return -1
		}
		return 1
	})
	return peers
}
