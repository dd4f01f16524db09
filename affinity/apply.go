package affinity

import (
	"math"
	"strconv"
	"time"

	"mooring/internal/fleet"
)

// Applied says what Apply did with an event.
type Applied uint8

const (
	// Inserted: nothing was known of the session.
	Inserted Applied = iota
	// Replaced: the event was newer than what was known.
	Replaced
	// Refreshed: the same record was known; the later deadline counts.
	Refreshed
	// Stale: what is known is newer.
	Stale
	// Floored: the session was unpinned at or above the event's version.
	Floored
	// Tied: the same version was known with another target, which cannot happen
	// between correct replicas; the higher target counts.
	Tied
	// Expired: the event has no life left.
	Expired
	// Invalid: the session id breaks the rules of SessionID, or there is no target.
	Invalid
	// Full: there is no room for a replicated session.
	Full
)

// String returns the lower-case word that metrics use.
func (a Applied) String() string {
	words := [...]string{"inserted", "replaced", "refreshed", "stale", "floored", "tied", "expired", "invalid", "full"}
	if int(a) < len(words) {
		return words[a]
	}
	return "applied(" + strconv.Itoa(int(a)) + ")"
}

// maxClockLead is how far above the wall clock an observed sequence moves this
// replica's own at most. Replicas whose clocks agree better than that never drag
// one another.
const maxClockLead = 30 * time.Minute

// clockLead returns maxClockLead, or what goes with a small skew: a replica whose
// clock is behind by the lead must still accept what is minted here. So it is
// half of the skew, for which the clocks must agree within the other half.
func clockLead(maxSkew time.Duration) time.Duration { return min(maxClockLead, maxSkew/2) }

// observe makes later sequences higher than a replicated one, but by that alone
// no higher than the wall clock and the lead.
func (s *sequencer) observe(wall time.Time, lead time.Duration, sequence uint64) {
	seen := min(sequence, sequenceAt(wall.Add(lead)))
	for {
		last := s.last.Load()
		if last >= seen || s.last.CompareAndSwap(last, seen) {
			return
		}
	}
}

// Apply merges what another replica says of a session; see state.merge and
// mergeFloor. It publishes nothing. ev.Life is the life that the record had left
// when it was sent, capped by the caller. dormant says that the session is now
// bound to a target that cannot be scheduled here at the moment: it is stored
// and in the digest all the same, since replicas whose views differ could
// otherwise never agree.
func (t *Table) Apply(ev Event) (applied Applied, dormant bool) {
	switch {
	case checkSession(ev.Session) != nil, ev.Kind != EventUnpinned && ev.Target.IsZero():
		return Invalid, false
	case ev.Life <= 0:
		return Expired, false
	}
	now := t.now()
	if t.revert == ClockLead {
		t.sequence.observe(time.Unix(0, math.MaxInt64), 0, ev.Sequence)
	}
	t.sequence.observe(t.wallNow(), t.clockLead, ev.Sequence)
	if ev.Kind == EventUnpinned {
		return t.applyFloor(now, ev), false
	}
	applied, dormant = t.applyBinding(now, ev)
	if applied == Full && t.sweepForReplicas(now) {
		applied, dormant = t.applyBinding(now, ev)
	}
	return applied, dormant
}

// sweepForReplicas is sweepSome for a replicated session. It does nothing if it
// did a moment ago: in a flood of sessions that find no room, each would take all
// locks.
func (t *Table) sweepForReplicas(now instant) bool {
	last := t.madeRoom.Load()
	if now-instant(last) < instant(time.Millisecond) && last != 0 || !t.madeRoom.CompareAndSwap(last, max(int64(now), 1)) {
		return false
	}
	return t.sweepSomeTo(now, 2*t.limit)
}

func (t *Table) applyBinding(now instant, ev Event) (applied Applied, dormant bool) {
	var fx effects
	defer func() { t.perform(&fx) }()
	v := version{ev.Sequence, ev.WriterID}
	sh := t.shardOf(ev.Session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if v.compare(t.floors.at(ev.Session, now)) <= 0 {
		return Floored, false
	}
	e, was, ok := sh.openLockedTo(t, ev.Session, now, 2*t.limit, &fx)
	if !ok {
		return Full, false
	}
	if t.revert == TargetOrders && v == e.version && ev.Target != e.target {
		sh.closeLocked(t, e, was, now, &fx)
		return Stale, false
	}
	applied = e.merge(now, record{target: ev.Target, version: v, life: ev.Life})
	if applied == Replaced || applied == Tied {
		fx.event = Event{Session: e.session, Target: e.target}
		fx.moved(moveReplica, was.target, e.target)
	}
	dormant = !t.alive().schedulable(e.target)
	sh.closeLocked(t, e, was, now, &fx)
	return applied, dormant
}

func (t *Table) applyFloor(now instant, ev Event) Applied {
	var fx effects
	defer func() { t.perform(&fx) }()
	v := version{ev.Sequence, ev.WriterID}
	sh := t.shardOf(ev.Session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	life := min(ev.Life, FloorLife)
	if t.revert == FloorsAge {
		life = FloorLife
	}
	applied, _ := t.raiseFloor(ev.Session, v, now, life)
	if e := sh.mu.entries[ev.Session]; e != nil {
		was := e.earlier()
		fx.count(e.settle(now))
		if e.bound() && e.version.compare(v) <= 0 {
			e.unbind()
			fx.unpinned++
		}
		if wake := sh.fileLocked(t, e, was, now); wake != nil {
			fx.wake = wake
		}
	}
	return applied
}

// raiseFloor remembers for life that bindings up to v are void. It returns what
// became of that, and the life of the session's floor now, which is as long or
// longer. The session's shard is locked.
func (t *Table) raiseFloor(session string, v version, now instant, life time.Duration) (Applied, time.Duration) {
	applied, ends, evicted := t.floors.raise(session, v, now, after(now, life), &t.digest)
	add(t.metrics.floorsEvicted, evicted)
	return applied, timeLeft(ends, now)
}

// known returns the highest version that the session's binding and floor have:
// what is minted must be above both.
func (t *Table) known(session string, bound version, now instant) version {
	if fl := t.floors.at(session, now); fl.compare(bound) > 0 {
		return fl
	}
	return bound
}

// AtReplicaLimit reports whether there is no room for another replicated session.
func (t *Table) AtReplicaLimit() bool { return t.entries.Load() >= 2*t.limit }

// AtFloorLimit reports whether there is no room for another session's floor: one
// more would have the one that ends first forgotten.
func (t *Table) AtFloorLimit() bool { return t.floors.full() }

// TTL returns the life of a binding that is not used again, in all partitions.
func (r *Resolver) TTL() time.Duration { return r.cfg.TTL }

// Partition returns the partition whose sessions the table holds.
func (t *Table) Partition() fleet.Partition { return t.partition }

// Tables returns the tables of all partitions that the fleet's view has, and of
// those that it had recently, in no order.
func (r *Resolver) Tables() []*Table {
	for _, p := range r.live.View().Partitions() {
		r.Table(p)
	}
	return r.all()
}

// Schedulable reports whether a request could go to the target now.
func (r *Resolver) Schedulable(p fleet.Partition, target fleet.Target) bool {
	return r.live.View().IsSchedulable(p, target)
}
