package replication

import (
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
	looksPerTick = 1 << 15  // records looked at: well below a millisecond
)

// answering is a peer's want that is being answered, as the budget allows.
type answering struct {
	peer      uint64
	partition fleet.Partition
	narrowed  bool   // the want names sub-buckets only
	parts     []part // to be looked at yet
	have      sumSet
	todo      []affinity.Ref
}

// answer begins to republish what a want does not name. A peer's later want
// takes the place of its earlier one, but one that names sub-buckets not that of
// one that does not: they are for different buckets.
func (c *Core) answer(m *SyncMessage) {
	if m.To != c.cfg.SenderID {
		return
	}
	narrowed := len(m.Buckets) == 0
	c.answers = slices.DeleteFunc(c.answers, func(a *answering) bool {
		return a.peer == m.SenderID && a.partition == m.Partition && a.narrowed == narrowed
	})
	remembered := 0
	for _, a := range c.answers {
		remembered += 8 * len(a.have.places)
	}
	if len(c.answers) >= maxJobs || remembered >= maxHaveBytes {
		return // it will ask again
	}
	a := &answering{peer: m.SenderID, partition: m.Partition, narrowed: narrowed, parts: partsOf(m.Buckets, m.Subs)}
	if !c.cfg.ablate.noHave {
		a.have = newSumSet(m.Have)
	}
	c.answers = append(c.answers, a)
}

// advanceAnswers goes on with the answers, in turn, within the allowance and
// the looks.
func (c *Core) advanceAnswers(now time.Time, looks int) {
	for looks > 0 && c.records.left > 0 && len(c.answers) > 0 {
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
	for ; len(a.todo) > 0 && c.records.left > 0 && looked < turn; looked++ {
		r, ok := table.Record(a.todo[0])
		a.todo = a.todo[1:]
		if !ok || r.Life < least || a.have.has(r.Sum) {
			continue
		}
		if last, sent := c.resent[r.Sum]; sent && now.Sub(last) < resendAfter && !c.cfg.ablate.resendAlways {
			continue
		}
		c.records.left--
		c.resent[r.Sum] = now
		c.sendRecord(table.Partition(), r.Event)
	}
	return looked
}

// allowance is how many of something may be sent now.
type allowance struct {
	left     int // below 0: what was sent last was more than there was
	refilled time.Time
}

// refill gives back that of the time since the last call. No second has more than
// perSec, of which burst is at once after a pause.
func (a *allowance) refill(now time.Time, perSec, burst int) {
	gained := int(min(now.Sub(a.refilled), time.Second) * time.Duration(perSec-burst) / time.Second)
	if gained > 0 {
		a.refilled, a.left = now, min(a.left+gained, burst)
	}
}

// forget drops what is no longer recent: each second.
func (c *Core) forget(now time.Time) {
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
	for _, p := range c.peers.byID {
		p.forgetSubs(now)
	}
}
