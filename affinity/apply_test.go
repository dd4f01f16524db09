package affinity

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/fleet"
)

// naiveReplica is a second implementation of what Apply comes to, as plain as
// can be: it keeps all events with the time at which they came, and says only at
// the end what holds.
type naiveReplica struct {
	now    time.Duration
	events []Event // Life: when it ends
}

func (n *naiveReplica) apply(e Event) {
	e.Life += n.now
	n.events = append(n.events, e)
}

// holds returns the session's binding and floor of all events that came, if none
// ended before the last came.
func (n *naiveReplica) holds(session string) (line string) {
	var fl, best *Event
	newer := func(a, b *Event) bool {
		return version{a.Sequence, a.WriterID}.compare(version{b.Sequence, b.WriterID}) > 0
	}
	for i := range n.events {
		e := &n.events[i]
		if e.Session == session && e.Kind == EventUnpinned && (fl == nil || newer(e, fl)) {
			fl = e
		}
	}
	for i := range n.events {
		e := &n.events[i]
		if e.Session != session || e.Kind == EventUnpinned || fl != nil && !newer(e, fl) {
			continue
		}
		if best == nil || newer(e, best) || !newer(best, e) && e.Target.Compare(best.Target) > 0 {
			best = e
		}
	}
	for i := range n.events {
		e := &n.events[i]
		if e.Session == session && e.Kind == EventUnpinned {
			fl.Life = max(fl.Life, e.Life) // whichever it is, it voids what was void before
		}
		if best != nil && e.Session == session && e.Kind == best.Kind && !newer(e, best) && !newer(best, e) && e.Target == best.Target {
			best.Life = max(best.Life, e.Life)
		}
	}
	if best != nil {
		line += fmt.Sprintf(" %v %d/%d %v", best.Target, best.Sequence, best.WriterID, best.Life-n.now)
	}
	if fl != nil {
		line += fmt.Sprintf(" floor %d/%d %v", fl.Sequence, fl.WriterID, fl.Life-n.now)
	}
	return line
}

// records returns all that the table holds.
func records(t *Table) (recs []Record) {
	for b := range Buckets {
		for _, ref := range t.Refs(nil, uint8(b)) {
			if r, ok := t.Record(ref); ok {
				recs = append(recs, r)
			}
		}
	}
	return recs
}

// held returns what the table holds of a session, in the form of holds.
func (t *Table) held(session string) string {
	var binding, floor string
	for _, r := range records(t) {
		switch {
		case r.Session != session:
		case r.Kind == EventUnpinned:
			floor = fmt.Sprintf(" floor %d/%d %v", r.Sequence, r.WriterID, r.Life)
		default:
			binding = fmt.Sprintf(" %v %d/%d %v", r.Target, r.Sequence, r.WriterID, r.Life)
		}
	}
	return binding + floor
}

// randomEvents collide often in sessions, versions and targets. A version that
// is bound is never that of an unpin, as with correct replicas.
func randomEvents(rng *rand.Rand, n int) (events []Event) {
	for range n {
		e := Event{
			Kind: EventBound, Session: fmt.Sprint("s", rng.IntN(3)), Target: fleet.OnRank(fleet.WorkerID(1+rng.IntN(5)), uint32(rng.IntN(2))),
			Sequence: uint64(2 * (1 + rng.IntN(5))), WriterID: uint64(1 + rng.IntN(2)), Life: time.Duration(1+rng.IntN(100)) * time.Minute,
		}
		if rng.IntN(3) == 0 {
			e.Kind, e.Target, e.Sequence = EventUnpinned, fleet.Target{}, e.Sequence+1
		}
		events = append(events, e)
	}
	return events
}

func TestMergeIsAJoin(t *testing.T) {
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			events := randomEvents(rng, 12)
			n := &naiveReplica{}
			for _, e := range events {
				n.apply(e)
			}
			var digest Digest
			for try := range 3 {
				table, _ := newTestTable(t, Config{})
				for _, i := range rng.Perm(len(events)) {
					for range 1 + rng.IntN(2) {
						table.Apply(events[i])
					}
				}
				for _, s := range []string{"s0", "s1", "s2"} {
					if got, want := table.held(s), n.holds(s); got != want {
						t.Fatalf("seed %d, session %s: holds %q, want %q\nevents %v", seed, s, got, want, events)
					}
				}
				if d := table.Digest(); try == 0 {
					digest = d
				} else if d != digest {
					t.Fatalf("seed %d: order changed the digest", seed)
				}
			}
		})
	}
}

func TestRecordThatCameDuringTheTurnWins(t *testing.T) {
	table, _ := newTestTable(t, Config{})
	l := acquired(t, table, "s")
	table.Apply(Event{Session: "s", Target: fleet.OnRank(2, 0), Sequence: 9, WriterID: 9, Life: time.Minute})
	if err := l.Bind(fleet.OnRank(1, 0)); err != nil {
		t.Fatal(err)
	}
	isBoundTo(t, l, fleet.OnRank(2, 0))
	if e, _ := table.Lookup("s"); e.Sequence != 9 || e.Leases != 1 {
		t.Errorf("entry = %+v; want the other replica's version and one lease", e)
	}
}

func TestChoiceGoesAboveARecordThatCannotBeUsed(t *testing.T) {
	table, _ := newTestTable(t, Config{})
	far := uint64(time.Now().Add(10 * time.Minute).UnixNano())
	l := acquired(t, table, "s")
	table.Apply(Event{Session: "s", Target: fleet.OnRank(99, 0), Sequence: far, WriterID: 9, Life: time.Minute})
	if err := l.Bind(fleet.OnRank(1, 0)); err != nil {
		t.Fatal(err)
	}
	isBoundTo(t, l, fleet.OnRank(1, 0))
	if e, _ := table.Lookup("s"); e.Sequence <= far {
		t.Errorf("minted %d, not above the known %d", e.Sequence, far)
	}
}

func TestUnpinOutlivesANewerBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{TTL: time.Minute})
		old := Event{Session: "s", Target: fleet.OnRank(1, 0), Sequence: 5, WriterID: 1, Life: time.Hour}
		table.Apply(old)
		table.Unpin("s")
		bindTo(t, table, "s", fleet.OnRank(2, 0)).Release(Completed)
		time.Sleep(time.Minute)
		if applied, _ := table.Apply(old); applied != Floored {
			t.Errorf("the unpinned binding came back: %v", applied)
		}
		time.Sleep(FloorLife)
		if d := table.Digest(); d != (Digest{}) {
			t.Error("the unpin outlived its life")
		}
	})
}

func TestNotYetKnownIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, live := newTestTable(t, Config{WaitFor: 2 * time.Second, Grace: 10 * time.Second})
		far := Event{Session: "s", Target: fleet.OnRank(4, 0), Sequence: 5, WriterID: 1, Life: time.Hour}
		if applied, dormant := table.Apply(far); applied != Inserted || !dormant {
			t.Fatalf("apply = %v, dormant %v", applied, dormant)
		}
		start := time.Now()
		if _, err := table.Acquire(t.Context(), "s", fleet.Target{}); err == nil || time.Since(start) != 2*time.Second {
			t.Fatalf("acquire = %v after %v; want a refusal after 2s", err, time.Since(start))
		}
		time.AfterFunc(time.Second, func() { live.Publish(fleetOf(fleet.Active, fleet.Active, fleet.Active, fleet.Active)) })
		l := acquired(t, table, "s")
		isBoundTo(t, l, far.Target)
		l.Release(Completed)
		live.Publish(fleetOf(fleet.Active))
		time.Sleep(10 * time.Second)
		if l := acquired(t, table, "s"); !l.Moved() {
			t.Error("after the grace the session was not re-bound")
		}
	})
}

func TestReplicatedSessionsHaveTwiceTheRoom(t *testing.T) {
	table, _ := newTestTable(t, Config{MaxSessions: 3})
	for i := range 7 {
		e := Event{Session: fmt.Sprint(i), Target: fleet.OnRank(1, 0), Sequence: 5, WriterID: 1, Life: time.Hour}
		want := Inserted
		if i == 6 {
			want = Full
		}
		if applied, _ := table.Apply(e); applied != want {
			t.Errorf("event %d: %v, want %v", i, applied, want)
		}
	}
}
