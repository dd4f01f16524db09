package replication_test

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
)

// errViolation marks what must never happen, unlike the refusal of a request.
var errViolation = errors.New("violation")

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errViolation, fmt.Sprintf(format, args...))
}

// lifeSlack is by how much a copy may outlive its origin: what it has left does
// not shrink while it travels, and copies are copied to those who lost messages.
const lifeSlack = 3 * time.Second

// slack is lifeSlack, and as much again as a message travels for each replica
// that started since: it may have been the only one that had the record, and got
// a copy.
func (o *oracle) slack(since time.Time) time.Duration {
	slack := lifeSlack
	for i := len(o.started) - 1; i >= 0 && o.started[i].After(since); i-- {
		slack += o.c.net.MaxDelay + 21*time.Millisecond
	}
	return slack
}

// disputed is a session that replicas whose clocks differ cannot agree on: its
// version is as far ahead as only some of them accept.
const disputed = "disputed"

// oracle remembers what the replicas have been told, and so what they must not
// hold.
type oracle struct {
	c      *cluster
	floors []map[string]heldFloor // by replica and session: what it had since its start
	since  map[recordKey]time.Time

	started []time.Time // of replicas, since the beginning
}

// heldFloor is the highest floor of a session that a replica had, and until when
// it counts: that a first request never got to its worker is soon forgotten.
type heldFloor struct {
	version
	until time.Time
}

// forbids reports whether a binding of version v must not be there now.
func (f heldFloor) forbids(v version) bool { return time.Now().Before(f.until) && !v.above(f.version) }

// recordKey names a binding or a floor; since says when it was used last, or
// made.
type recordKey struct {
	session string
	version version
	floor   bool
}

func newOracle(c *cluster) *oracle {
	o := &oracle{c: c, since: make(map[recordKey]time.Time)}
	for range c.replicas {
		o.floors = append(o.floors, make(map[string]heldFloor))
	}
	c.got, c.before = o.heard, o.inUse
	return o
}

// used notes that the session's binding at r gets its full life now.
func (o *oracle) used(r *replica, session string) {
	if ev, ok := r.tableOf(session).Current(session); ok {
		o.since[recordKey{session, versionOf(ev), false}] = time.Now()
	}
}

// heard notes the events of plain peers: whoever gets one takes it for a use.
func (o *oracle) heard(_ int, m replication.Message) {
	if m.Topic == replication.TopicSync {
		return
	}
	if e, err := replication.DecodeEvent(m.Payload); err == nil && e.TTLMillis == nil {
		o.since[recordKey{e.SessionID, version{e.Sequence, e.WriterID}, false}] = time.Now()
	}
}

// unpinned notes that r may just have made the session's floor. A replica that
// restarted with the writer id it had, and whose clock is behind the others', can
// even make a version that it made before: it counts on from what it hears. Where
// a higher floor is, it counts for as long as this one.
func (o *oracle) unpinned(r *replica, session string) {
	if ev, ok := r.tableOf(session).Floor(session); ok && ev.Life == affinity.FloorLife {
		made := recordKey{session, versionOf(ev), true}
		o.since[made] = time.Now()
		for key := range o.since {
			if key.floor && key.session == session && key.version.above(made.version) {
				o.since[key] = time.Now()
			}
		}
	}
}

// restarted forgets what a replica cannot remember either.
func (o *oracle) restarted(i int) {
	clear(o.floors[i])
	o.started = append(o.started, time.Now())
}

// inUse notes the sessions that have leases, whose bindings may have changed
// under them.
func (o *oracle) inUse() {
	for _, r := range o.c.replicas {
		for _, l := range r.leases {
			if _, bound := l.Target(); bound {
				o.used(r, l.session)
			}
		}
	}
}

// check returns what must never be.
func (o *oracle) check() error {
	o.inUse()
	for i, r := range o.c.replicas {
		if err := o.checkReplica(i, r); err != nil {
			return err
		}
	}
	return nil
}

func (o *oracle) checkReplica(i int, r *replica) error {
	recs := r.records()
	bindings := make(map[fleet.Partition]int)
	for _, rec := range recs {
		if rec.Kind != affinity.EventUnpinned {
			bindings[partOf(rec.Session, r.parts)]++
			continue
		}
		if v := versionOf(rec.Event); !o.floors[i][rec.Session].above(v) {
			o.floors[i][rec.Session] = heldFloor{v, time.Now().Add(rec.Life)}
		}
	}
	for p, n := range bindings {
		if n > 2*o.c.max {
			return violation("replica %d holds %d bindings in %v, at most %d", i, n, p, 2*o.c.max)
		}
	}
	for _, rec := range recs {
		floor := rec.Kind == affinity.EventUnpinned
		key := recordKey{rec.Session, versionOf(rec.Event), floor}
		since, known := o.since[key]
		if !known {
			since = time.Now()
			o.since[key] = since
		}
		life := o.c.ttl + o.slack(since)
		if floor {
			// Each repair is heard by all, and gives those who have the floor the
			// time that it travelled: with delays of 0.3 s that adds up.
			life = affinity.FloorLife + lifeSlack + time.Since(since)/10
		}
		switch {
		// A replica that has not heard of an unpin cannot know of it: a session
		// comes back only where the floor was.
		case !floor && !o.crowded() && o.floors[i][rec.Session].forbids(versionOf(rec.Event)):
			return violation("replica %d: unpinned session %s is back", i, rec.Session)
		case rec.Sequence > uint64(time.Now().Add(r.skew+time.Hour).UnixNano()):
			return violation("replica %d holds poison: %+v", i, rec)
		case rec.Life > life-time.Since(since) || rec.Life <= 0:
			return violation("replica %d holds %v %q with a life of %v, %v after its last use", i, rec.Kind, rec.Session, rec.Life, time.Since(since))
		}
	}
	return nil
}

// crowded says that floors had to go before their time, as there were too many.
func (o *oracle) crowded() bool { return o.c.max < 100 }

// converged returns an error unless all replicas that are up agree now.
//
// Deadlines are not part of the digest (spec, 4). So a replica that lost a
// refresh is equal until it expires the session before the others do, and only
// then differs, until the next digest: what it lacks must be back 5.5 s later,
// unless it ended everywhere, or is so near its end that nobody repairs it. With
// a life of 30 minutes nothing expires meanwhile, and all must be equal at once.
func (o *oracle) converged() error {
	lacks := o.lacks()
	if len(lacks) > 0 && o.c.ttl <= time.Minute {
		o.c.run(5500 * time.Millisecond)
		now := o.lacks()
		maps.DeleteFunc(lacks, func(l lack, _ affinity.Record) bool { return now[l].Life < 2*time.Second })
	}
	if len(lacks) > 0 {
		return violation("replicas differ in %d records:%s", len(lacks), describe(lacks))
	}
	return o.floorsHeld()
}

func (o *oracle) lacks() map[lack]affinity.Record {
	lacks := o.c.differing()
	maps.DeleteFunc(lacks, func(_ lack, rec affinity.Record) bool {
		return rec.Session == disputed || o.crowded() && rec.Kind == affinity.EventUnpinned
	})
	return lacks
}

// floorsHeld returns an error unless the highest floor that counts at a replica,
// and that it did not forget by a restart, is at all of them.
func (o *oracle) floorsHeld() error {
	if o.crowded() {
		return nil
	}
	highest := make(map[string]version)
	for _, floors := range o.floors {
		for session, f := range floors {
			if f.forbids(f.version) && f.above(highest[session]) {
				highest[session] = f.version
			}
		}
	}
	for i, floors := range o.floors {
		for session, v := range highest {
			if floors[session].version != v {
				return violation("replica %d has not heard that %s was unpinned", i, session)
			}
		}
	}
	return nil
}
