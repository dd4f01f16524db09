package replication

import (
	"strconv"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// Disposition says what became of a message.
type Disposition uint8

// Dispositions of binding events, in the order of the tests that give them, and
// of messages that do not get that far.
const (
	OwnSender      Disposition = iota // our own echo
	OtherPartition                    // its partition is not here: no room to hold it, or it was held and the partition did not come
	Held                              // its partition is not here, and may come: kept for a while
	ClockRejected                     // a sequence too far in the future
	Invalid                           // breaks the rules of session ids, or has no target
	NotLive                           // stored, but its target cannot be scheduled here
	Inserted
	Replaced
	Refreshed
	Stale
	Floored
	Tied
	Expired
	Full
	Malformed   // could not be decoded
	DuplicateV1 // a v1 copy of a sender that is heard on v2
	Forged      // no or a wrong signature
	Synced      // a message on TopicSync other than a floor
	UnknownType // such a message of a type that only newer replicas know
	dispositions
)

// String returns the value of the metric's label.
func (d Disposition) String() string {
	words := [...]string{"own_sender", "other_partition", "held", "clock_rejected", "invalid", "not_live", "inserted", "replaced",
		"refreshed", "stale", "floored", "tied", "expired", "full", "malformed", "duplicate_v1", "forged", "synced", "unknown_type"}
	if int(d) < len(words) {
		return words[d]
	}
	return "disposition(" + strconv.Itoa(int(d)) + ")"
}

func dispositionOf(a affinity.Applied, dormant bool) Disposition {
	of := [...]Disposition{
		affinity.Inserted: Inserted, affinity.Replaced: Replaced, affinity.Refreshed: Refreshed, affinity.Stale: Stale, affinity.Floored: Floored,
		affinity.Tied: Tied, affinity.Expired: Expired, affinity.Invalid: Invalid, affinity.Full: Full,
	}
	if dormant && (a == affinity.Inserted || a == affinity.Replaced) {
		return NotLive
	}
	return of[a]
}

// Apply merges a binding event of the partition; see Disposition for the order
// of its tests. It belongs to the Core's goroutine.
func (c *Core) Apply(now time.Time, p fleet.Partition, e *BindingEvent) Disposition {
	if e.SenderID == c.cfg.SenderID || c.cfg.ablate.skipOwnWriter && e.WriterID == c.cfg.WriterID {
		return OwnSender
	}
	ev := affinity.Event{Session: e.SessionID, Target: e.target(), Sequence: e.Sequence, WriterID: e.WriterID, Life: c.lifeOf(e.TTLMillis)}
	return c.apply(now, p, ev, e.SenderID == 0)
}

// lifeOf returns the life that a message gives; below 0: as the table has it.
func (c *Core) lifeOf(ms *uint64) time.Duration {
	if ms == nil {
		return -1
	}
	if c.cfg.ablate.wallDeadlines {
		return max(time.UnixMilli(int64(*ms)).Sub(c.cfg.WallNow()), 0)
	}
	if *ms > uint64(c.cfg.MaxReplicaTTL/time.Millisecond) {
		return c.cfg.MaxReplicaTTL
	}
	return time.Duration(*ms) * time.Millisecond
}

// plainLife is the life of an event that does not say how long it lives.
func (c *Core) plainLife() time.Duration { return min(c.cfg.Sessions.TTL(), c.cfg.MaxReplicaTTL) }

// apply is Apply from the second test on, for floors too. The clock is looked at
// before an event is held: of one session's events only the newest is, and a
// poisoned one would drive out all others.
func (c *Core) apply(now time.Time, p fleet.Partition, ev affinity.Event, plain bool) Disposition {
	table, served := c.cfg.Sessions.Table(p)
	if !c.cfg.ablate.noSkewLimit && c.isAhead(now, ev, plain) {
		return ClockRejected
	}
	if !served {
		return c.hold(now, p, ev)
	}
	if ev.Life < 0 {
		ev.Life = c.plainLife()
	}
	if c.cfg.ablate.livenessGates && ev.Kind != affinity.EventUnpinned && !c.cfg.Sessions.Schedulable(p, ev.Target) {
		return NotLive
	}
	return dispositionOf(table.Apply(ev))
}

// isAhead reports whether the event's sequence is too far in the future. What no
// replica's copy would be taken of either is remembered, for wants.
func (c *Core) isAhead(now time.Time, ev affinity.Event, plain bool) bool {
	limit := func(skew time.Duration) uint64 { return uint64(max(c.cfg.WallNow().Add(skew).UnixNano(), 0)) }
	if ev.Sequence <= limit(c.cfg.MaxClockSkew) {
		return plain && ev.Sequence > limit(c.cfg.MaxClockSkew/2)
	}
	if len(c.refused) < maxRefused && !c.cfg.ablate.noRefused {
		c.refused[ev.Sum()] = now
	}
	return true
}
