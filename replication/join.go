package replication

import (
	"math/bits"
	"slices"
	"time"

	"mooring/affinity"
)

// Link is this replica's connection to one peer.
type Link struct {
	Endpoint  string    // as in Message.From
	Connected bool      // now
	Since     time.Time // when that began; zero: the first attempt is under way
}

// PeerAt is what is known of one configured peer.
type PeerAt struct {
	Link
	Peer               // of who was heard there last; zero: nobody
	Spoke    time.Time // when something came from there, taken or refused; zero: nothing yet
	Distrust Distrust  // of what came then
}

// At joins the links with what was heard over them. A link to this replica itself
// is left out.
func (s *Status) At(links []Link) []PeerAt {
	links = slices.DeleteFunc(slices.Clone(links), func(l Link) bool { return l.Endpoint == s.Self })
	peers := make([]PeerAt, len(links))
	for i, l := range links {
		peers[i].Link = l
		for _, p := range s.Peers {
			if p.From == l.Endpoint && (peers[i].SenderID == 0 || p.LastHeard.After(peers[i].LastHeard)) {
				peers[i].Peer = p
			}
		}
		for _, v := range s.Voices {
			if v.Endpoint == l.Endpoint {
				peers[i].Spoke, peers[i].Distrust = v.Last, v.Distrust
			}
		}
	}
	return peers
}

// Quiet reports whether the peer is connected and should have been heard, and for
// how long it was not. One that has said once that it is there says so each
// second; others may be silent for as long as they like once they have said
// anything.
func (p *PeerAt) Quiet(now time.Time) (since time.Duration, yes bool) {
	last := p.Since
	switch {
	case !p.Connected || !p.Spoke.IsZero() && p.WriterID == 0:
		return 0, false
	case p.Spoke.After(last):
		last = p.Spoke
	}
	since = now.Sub(last)
	return since, since >= quiet
}

// answersWithin is how long a peer that is connected may be silent before it is
// taken for one that only publishes bindings, and is not waited for.
const answersWithin = 1500 * time.Millisecond

// Ready reports whether the joining is over, and whether only time ended it.
func (c *Core) Ready() (ready, timedOut bool) { return c.ready, c.timedOut }

func (c *Core) joinState() Join {
	switch {
	case !c.ready:
		return Joining
	case c.timedOut:
		return JoinedByTimeout
	}
	return JoinedByDigest
}

// Rejoin begins to join anew: this process may have missed anything.
func (c *Core) Rejoin(now time.Time) {
	c.ready, c.timedOut, c.started, c.progress = false, false, now, now
	c.nextHello, c.helloSince, c.nextDigest = now, now, now
	for _, p := range c.peers.byID {
		p.answered = false
		for _, w := range p.wants {
			w.lacking = laggards{}
		}
	}
}

// syncTimeouts bounds a joining that comes forward, however slowly.
const syncTimeouts = 10

// join repeats hello until every peer that answers has been repaired, and after
// a peer was reached anew until a digest answers, or for the sync timeout.
func (c *Core) join(now time.Time) {
	if !c.ready {
		c.timedOut = now.Sub(c.progress) >= c.cfg.SyncTimeout || now.Sub(c.started) >= syncTimeouts*c.cfg.SyncTimeout
		c.ready = c.timedOut || c.repaired(now)
	}
	if !c.nextHello.IsZero() && !now.Before(c.nextHello) {
		c.helloSent, c.nextHello = now, now.Add(helloEvery)
		if c.ready && (c.digestCame.After(c.helloSince) || now.Sub(c.helloSince) >= c.cfg.SyncTimeout) {
			c.nextHello = time.Time{}
		}
		c.sendSync(&SyncMessage{Type: Hello})
	}
}

// noticeTables says hello if there are tables that were not there before: peers
// have told what they have of their partitions, and it was not heeded.
func (c *Core) noticeTables(now time.Time) {
	tables := c.cfg.Sessions.Tables()
	grown := slices.ContainsFunc(tables, func(t *affinity.Table) bool { return !c.tables[t] })
	if !grown && len(tables) == len(c.tables) {
		return
	}
	c.tables = make(map[*affinity.Table]bool, len(tables))
	for _, t := range tables {
		c.tables[t] = true
	}
	if grown {
		c.helloSoon(now)
	}
}

// repaired reports whether peers have answered, none of them differs, and no
// other is going to answer. A single answer would not do: it may be that of a
// replica that joins too and has nothing yet.
func (c *Core) repaired(now time.Time) bool {
	answered := 0
	for _, p := range c.peers.byID {
		// One that has died in the meantime is not waited for.
		if p.answered && now.Sub(p.LastHeard) < silence {
			answered++
			if p.hasMore() {
				return false
			}
		}
	}
	if answered == 0 || c.cfg.Links == nil {
		return answered > 0
	}
	for _, l := range c.cfg.Links() {
		if c.mayAnswer(now, l) {
			return false
		}
	}
	return true
}

// bucketSet holds numbers of buckets.
type bucketSet [affinity.Buckets / 64]uint64

func (s *bucketSet) add(b byte) { s[b/64] |= 1 << (b % 64) }

// laggards tells buckets of a peer's that have not been repaired from those that
// differ by what is on its way. The zero value has compared nothing.
type laggards struct {
	last  bucketSet // that differed at the last digest
	still int       // of those, and of the last but one; before the second digest: all that differed
	least int       // that still ever was
	again bool      // whether there was a digest before
}

// next takes the buckets that differ at the next digest, and reports whether the
// repair comes forward: it begins, or fewer buckets are left than ever. What is on
// its way makes more of them and fewer; that does not go on for long.
func (l *laggards) next(differ bucketSet) (forward bool) {
	l.still = 0
	for i := range differ {
		both := differ[i]
		if l.again {
			both &= l.last[i]
		}
		l.still += bits.OnesCount64(both)
	}
	if forward = !l.again && l.still > 0 || l.still < l.least; forward {
		l.least = l.still
	}
	l.last, l.again = differ, true
	return forward
}

// hasMore reports whether the peer has bindings that are not here and not on
// their way. While sessions are bound elsewhere two digests are hardly ever equal.
func (p *peer) hasMore() bool {
	for _, w := range p.wants {
		if w.lacking.still > 0 {
			return true
		}
	}
	return false
}

// askSoon lets the next digest of the peer be answered by a want: the peer has
// said hello, so it has just connected, and has not heard the last one.
func (p *peer) askSoon() {
	for _, w := range p.wants {
		w.at = time.Time{}
	}
}

// mayAnswer reports whether an answer of the peer at the other end is to come.
func (c *Core) mayAnswer(now time.Time, l Link) bool {
	if l.Since.IsZero() {
		return true
	}
	if !l.Connected || l.Endpoint == c.echoes {
		return false
	}
	talks := false
	for _, p := range c.peers.byID {
		if p.From == l.Endpoint && p.LastHeard.After(l.Since) {
			if p.answered {
				return false
			}
			talks = true
		}
	}
	return talks || now.Sub(l.Since) < answersWithin
}
