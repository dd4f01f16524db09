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
	lastSeq  uint64
	heardV2  bool
	answered bool // digests of all its partitions came since the join began
	wants    map[fleet.Partition]*wanted
}

// wanted is the state of repair with one peer for one partition.
type wanted struct {
	at           time.Time
	mine, theirs uint64 // the digests at the last want, in short
	differing    int
}

const (
	maxPeers   = 256
	peerForget = 10 * time.Minute
)

// hear notes a message of a sender; nil if there are too many senders.
func (c *Core) hear(now time.Time, id, seq uint64, from string) *peer {
	p := c.peers[id]
	if p == nil {
		if len(c.peers) >= maxPeers {
			return nil
		}
		p = &peer{Peer: Peer{SenderID: id}, wants: make(map[fleet.Partition]*wanted)}
		if seq > 0 {
			p.lastSeq = seq - 1
		}
		c.peers[id] = p
	}
	p.LastHeard, p.From = now, from
	switch {
	case seq > p.lastSeq:
		p.Holes += seq - p.lastSeq - 1
		p.lastSeq = seq
	case seq < p.lastSeq && p.Holes > 0:
		p.Holes-- // it was only late, or came twice
	}
	return p
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
