package affinity

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/internal/fleet"
)

// fromReplica is a binding that another replica made.
func fromReplica(target fleet.Target, sequence, writer uint64, life time.Duration) Event {
	return Event{Kind: EventBound, Session: "s", Target: target, Sequence: sequence, WriterID: writer, Life: life}
}

func wantApplied(t *testing.T, table *Table, ev Event, want Applied) {
	t.Helper()
	if got, _ := table.Apply(ev); got != want {
		t.Errorf("apply %v %d/%d: %v, want %v", ev.Target, ev.Sequence, ev.WriterID, got, want)
	}
}

// bound returns what is bound, which must be something.
func bound(t *testing.T, table *Table) Entry {
	t.Helper()
	e, ok := table.Lookup("s")
	if !ok {
		t.Fatal("nothing is bound")
	}
	return e
}

func TestHigherVersionWinsSequenceFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{TTL: time.Minute})
		one, two := fleet.OnRank(1, 0), fleet.OnRank(2, 0)
		wantApplied(t, table, fromReplica(one, 100, 5, time.Minute), Inserted)
		wantApplied(t, table, fromReplica(two, 99, 9, time.Minute), Stale)
		wantApplied(t, table, fromReplica(two, 101, 1, time.Minute), Replaced)
		if e := bound(t, table); e.Target != two || e.Sequence != 101 || e.WriterID != 1 {
			t.Errorf("bound to %v %d/%d, want %v 101/1", e.Target, e.Sequence, e.WriterID, two)
		}
	})
}

func TestRepeatedEventGivesItsLifeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{TTL: time.Minute})
		event := fromReplica(fleet.OnRank(1, 0), 100, 5, time.Minute)
		wantApplied(t, table, event, Inserted)
		time.Sleep(40 * time.Second)
		wantApplied(t, table, event, Refreshed)
		time.Sleep(40 * time.Second)
		if left := bound(t, table).ExpiresIn; left != 20*time.Second {
			t.Errorf("%v are left, want 20s", left)
		}
		time.Sleep(20 * time.Second)
		if _, ok := table.Lookup("s"); ok {
			t.Error("it outlives its life")
		}
		// A peer whose copy has expired gets it back from a later use elsewhere.
		wantApplied(t, table, event, Inserted)
	})
}

func TestBindingOfAReplicaIsPublishedUnderItsOwnVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var published []Event
		table, _ := newTestTable(t, Config{TTL: time.Minute, WriterID: 1, Publish: func(_ fleet.Partition, ev Event) { published = append(published, ev) }})
		target := fleet.OnRank(1, 1)
		wantApplied(t, table, fromReplica(target, 100, 5, time.Minute), Inserted)
		if len(published) != 0 {
			t.Fatalf("what was received was published: %v", published)
		}
		l := acquired(t, table, "s")
		isBoundTo(t, l, target)
		l.Release(Completed)
		want := Event{Kind: EventUsed, Session: "s", Target: target, Sequence: 100, WriterID: 5, Life: time.Minute}
		if len(published) != 1 || published[0] != want {
			t.Errorf("published %+v, want %+v", published, want)
		}
	})
}

func TestLeaseSurvivesANewerBindingAndStillCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{TTL: time.Minute})
		l := bindTo(t, table, "s", fleet.OnRank(1, 0))
		newer := fromReplica(fleet.OnRank(2, 0), bound(t, table).Sequence+1, 5, time.Minute)
		wantApplied(t, table, newer, Replaced)
		isBoundTo(t, l, fleet.OnRank(1, 0)) // the request finishes where it is
		if e := bound(t, table); e.Target != newer.Target || e.Leases != 1 {
			t.Errorf("bound to %v with %d leases, want %v with 1", e.Target, e.Leases, newer.Target)
		}
		l.Release(NeverSent) // an old lease cannot undo the newer binding
		if e := bound(t, table); e.Target != newer.Target || e.Leases != 0 || e.Sequence != newer.Sequence {
			t.Errorf("bound to %v %d with %d leases, want the newer one with none", e.Target, e.Sequence, e.Leases)
		}
	})
}

func TestReplicatedSessionIDsObeyTheRules(t *testing.T) {
	table, _ := newTestTable(t, Config{})
	for _, id := range []string{"", strings.Repeat("s", MaxSessionBytes+1), "\xff\xfe"} {
		ev := fromReplica(fleet.OnRank(1, 0), 100, 5, time.Minute)
		ev.Session = id
		wantApplied(t, table, ev, Invalid)
	}
	wantApplied(t, table, fromReplica(fleet.Target{}, 100, 5, time.Minute), Invalid)
	wantApplied(t, table, fromReplica(fleet.OnRank(1, 0), 100, 5, 0), Expired)
	if n := table.entries.Load(); n != 0 {
		t.Errorf("%d entries were made", n)
	}
}

func TestMoveByAReplicaIsCounted(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	table, _ := newTestTable(t, Config{Registerer: registry})
	moves := func(want string) {
		t.Helper()
		if line := "mooring_session_moves_total cause=replica " + want; !slices.Contains(scraped(t, registry), line) {
			t.Errorf("no %s in %v", line, scraped(t, registry))
		}
	}
	bindTo(t, table, "s", fleet.OnRank(1, 0))
	known := bound(t, table).Sequence
	wantApplied(t, table, fromReplica(fleet.OnRank(1, 0), known+1, 5, time.Minute), Replaced)
	wantApplied(t, table, fromReplica(fleet.OnRank(2, 0), known, 5, time.Minute), Stale)
	moves("0")
	wantApplied(t, table, fromReplica(fleet.OnRank(2, 0), known+2, 5, time.Minute), Replaced)
	wantApplied(t, table, fromReplica(fleet.OnRank(2, 1), known+2, 5, time.Minute), Tied)
	moves("2")
}

func TestUseAtAPeerCountsAgainstVoiding(t *testing.T) {
	var fromHere, fromPeer []Event
	here, _ := newTestTable(t, Config{WriterID: 1, Publish: func(_ fleet.Partition, ev Event) { fromHere = append(fromHere, ev) }})
	peer, _ := newTestTable(t, Config{WriterID: 2, Publish: func(_ fleet.Partition, ev Event) { fromPeer = append(fromPeer, ev) }})
	first := bindTo(t, here, "s", fleet.OnRank(1, 0))
	wantApplied(t, peer, fromHere[0], Inserted)
	acquired(t, peer, "s").Release(Completed)
	wantApplied(t, here, fromPeer[0], Refreshed)
	first.Release(NeverSent)
	if e := bound(t, here); e.Leases != 0 || len(fromHere) != 1 {
		t.Errorf("%d leases, published %+v; want the binding, and nothing told", e.Leases, fromHere)
	}
}
