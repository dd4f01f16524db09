package replication

import (
	"encoding/binary"
	"slices"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

const (
	repairPerSec = 20_000
	repairBurst  = 1000 // of those, sent at once after a pause
	resendAfter  = time.Second
	maxJobs      = 1024     // wants in the making, and answers, each
	maxHaveBytes = 16 << 20 // what the answers remember of the wants
	subsPerSec   = 16       // answers with sub-buckets, of up to 512 KiB, to all peers together
	looksPerTick = 1 << 15  // records looked at: well below a millisecond
	subsEvery    = wantAgain
)

// answering is a peer's want that is being answered, as the budget allows.
type answering struct {
	peer      uint64
	partition fleet.Partition
	parts     []part // to be looked at yet
	have      sumSet
	todo      []affinity.Ref
}

// answer begins to republish what a want does not name. A peer's later want
// takes the place of its earlier one.
func (c *Core) answer(m *SyncMessage) {
	if m.To != c.cfg.SenderID {
		return
	}
	c.answers = slices.DeleteFunc(c.answers, func(a *answering) bool { return a.peer == m.SenderID && a.partition == m.Partition })
	remembered := 0
	for _, a := range c.answers {
		remembered += 8 * len(a.have.places)
	}
	if len(c.answers) >= maxJobs || remembered >= maxHaveBytes {
		return // it will ask again
	}
	a := &answering{peer: m.SenderID, partition: m.Partition, parts: partsOf(m.Buckets, m.Subs)}
	if !c.cfg.ablate.noHave {
		a.have = newSumSet(m.Have)
	}
	c.answers = append(c.answers, a)
}

// advanceAnswers goes on with the answers, in turn, within the budget and the
// looks.
func (c *Core) advanceAnswers(now time.Time, looks int) {
	for looks > 0 && c.budget > 0 && len(c.answers) > 0 {
		a := c.answers[0]
		c.answers = c.answers[1:]
		table, ok := c.cfg.Sessions.Table(a.partition)
		if !ok || len(a.todo) == 0 && len(a.parts) == 0 {
			continue
		}
		if len(a.todo) == 0 {
			looks -= a.look(table)
		}
		looks -= c.republish(now, table, a)
		c.answers = append(c.answers, a)
	}
}

// look fills todo from the next part, and returns how many records it looked at.
func (a *answering) look(table *affinity.Table) int {
	next := a.parts[0]
	a.parts = a.parts[1:]
	a.todo = table.Refs(a.todo[:0], next.bucket)
	looked := 1 + len(a.todo)
	a.todo = slices.DeleteFunc(a.todo, func(r affinity.Ref) bool {
		return !next.has(affinity.SubBucketOf(r.Sum)) || a.have.has(r.Sum)
	})
	return looked
}

// republish sends some of a.todo, and returns how many records it looked at.
func (c *Core) republish(now time.Time, table *affinity.Table, a *answering) (looked int) {
	const turn = 256 // of one answer, before it is the next one's
	least := min(2*time.Second, c.cfg.Sessions.TTL()/8)
	if c.cfg.ablate.resendDying {
		least = 1
	}
	for ; len(a.todo) > 0 && c.budget > 0 && looked < turn; looked++ {
		r, ok := table.Record(a.todo[0])
		a.todo = a.todo[1:]
		if !ok || r.Life < least || a.have.has(r.Sum) {
			continue
		}
		if last, sent := c.resent[r.Sum]; sent && now.Sub(last) < resendAfter && !c.cfg.ablate.resendAlways {
			continue
		}
		c.budget--
		c.resent[r.Sum] = now
		c.sendRecord(table.Partition(), r.Event)
	}
	return looked
}

// answerSubs tells one peer the sub-buckets of the buckets that it asks for.
func (c *Core) answerSubs(now time.Time, p *peer, m *SyncMessage) {
	table, ok := c.cfg.Sessions.Table(m.Partition)
	if !ok || m.To != c.cfg.SenderID || now.Sub(p.subsSent) < subsEvery || c.subsSent >= subsPerSec {
		return
	}
	p.subsSent = now
	c.subsSent++
	reply := SyncMessage{Type: DigestOf, To: p.SenderID, Partition: m.Partition, Buckets: m.Buckets, Sums: make([]byte, 0, digestBytes*len(m.Buckets))}
	for _, b := range m.Buckets {
		for _, sum := range table.SubDigest(b) {
			reply.Sums = binary.BigEndian.AppendUint64(reply.Sums, sum)
		}
	}
	c.sendSync(&reply)
}

// refill gives back the repair budget of the time since the last call.
func (c *Core) refill(now time.Time) {
	const perSec = repairPerSec - repairBurst // so that no second has more
	gained := int(min(now.Sub(c.refilled), time.Second) * perSec / time.Second)
	if gained > 0 {
		c.refilled, c.budget = now, min(c.budget+gained, repairBurst)
	}
}

// forget drops what is no longer recent: each second.
func (c *Core) forget(now time.Time) {
	c.subsSent = 0
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
	c.peers.forget(now.Add(-peerForget))
}
