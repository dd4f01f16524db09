package affinity

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/fleet"
)

// joined returns a table in which session "s" was bound to 1:0, whose worker
// left while two requests ran: one became the initialiser, the other one was
// dispatched to 2:0 and joined.
func joined(t *testing.T, cfg Config) (table *Table, joiner, initialiser *Lease) {
	t.Helper()
	table, live := newTestTable(t, cfg)
	bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
	joiner = acquired(t, table, "s")
	live.Publish(fleetOf(fleet.Vanished, fleet.Active, fleet.Active))
	initialiser = acquired(t, table, "s")
	if _, bound := initialiser.Target(); bound {
		t.Fatal("no turn to choose though the worker has gone")
	}
	if err := joiner.Bind(fleet.OnRank(2, 0)); err != nil {
		t.Fatal(err)
	}
	return table, joiner, initialiser
}

// leases returns how many leases session "s" has, or -1 if it is not bound.
func leases(table *Table) int {
	e, ok := table.Lookup("s")
	if !ok {
		return -1
	}
	return e.Leases
}

func TestJoinWakesWaitersAndKeepsALeaseForTheInitialiser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, live := newTestTable(t, Config{})
		bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
		joiner := acquired(t, table, "s")
		live.Publish(fleetOf(fleet.Vanished, fleet.Active, fleet.Active))
		initialiser := acquired(t, table, "s")
		waiter := make(chan *Lease)
		go func() { waiter <- acquired(t, table, "s") }()
		synctest.Wait()
		start := time.Now()
		if err := joiner.Bind(fleet.OnRank(2, 0)); err != nil {
			t.Fatal(err)
		}
		l := <-waiter
		isBoundTo(t, l, fleet.OnRank(2, 0))
		if waited := time.Since(start); waited != 0 || leases(table) != 3 {
			t.Errorf("%d leases, the waiter woke after %v; want those of joiner, initialiser and waiter, at once", leases(table), waited)
		}
		if err := initialiser.Bind(fleet.OnRank(2, 0)); err != nil || leases(table) != 3 {
			t.Errorf("the initialiser agrees: %v, %d leases", err, leases(table))
		}
		for _, l := range []*Lease{joiner, initialiser, l} {
			l.Release(Completed)
		}
		if leases(table) != 0 {
			t.Errorf("%d leases are left", leases(table))
		}
	})
}

func TestDispatchWithoutAnInitialiserJoinsNothing(t *testing.T) {
	table, live := newTestTable(t, Config{})
	l := bindTo(t, table, "s", fleet.OnRank(1, 0))
	live.Publish(fleetOf(fleet.Vanished, fleet.Active, fleet.Active))
	if err := l.Bind(fleet.OnRank(2, 0)); err != nil || !l.Moved() || leases(table) != 1 {
		t.Errorf("failover: %v, moved %v, %d leases; want its own alone", err, l.Moved(), leases(table))
	}
	isBoundTo(t, l, fleet.OnRank(2, 0))
	l.Release(Completed)
	if leases(table) != 0 {
		t.Errorf("%d leases are left", leases(table))
	}
}

func TestJoinedBindingOutlivesItsJoinerBeforeTheInitialiserBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, joiner, initialiser := joined(t, Config{TTL: time.Second})
		joiner.Release(Completed)
		time.Sleep(time.Hour)
		if leases(table) != 1 {
			t.Fatalf("%d leases after the joiner ended, want the one kept for the initialiser", leases(table))
		}
		if err := initialiser.Bind(fleet.OnRank(2, 0)); err != nil || leases(table) != 1 {
			t.Errorf("the initialiser binds: %v, %d leases", err, leases(table))
		}
		initialiser.Release(Completed)
	})
}

func TestLastOfJoinerAndInitialiserRestartsTheLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, joiner, initialiser := joined(t, Config{TTL: time.Minute})
		if err := initialiser.Bind(fleet.OnRank(2, 0)); err != nil {
			t.Fatal(err)
		}
		initialiser.Release(Completed)
		time.Sleep(time.Hour)
		joiner.Release(Completed)
		time.Sleep(time.Minute - 1)
		if leases(table) != 0 {
			t.Error("the joiner's end did not restart the life")
		}
		time.Sleep(time.Nanosecond)
		if leases(table) != -1 {
			t.Error("the binding outlives its life")
		}
	})
}

func TestInitialiserThatGivesUpAfterAJoinLeavesTheBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, joiner, initialiser := joined(t, Config{TTL: time.Minute})
		initialiser.Release(NeverSent)
		if leases(table) != 1 {
			t.Errorf("%d leases, want the joiner's", leases(table))
		}
		joiner.Release(Completed)
		time.Sleep(time.Minute)
		bindTo(t, table, "s", fleet.OnRank(3, 0)).Release(Completed)
	})
}

func TestInitialiserCannotChangeWhatWasJoined(t *testing.T) {
	for _, other := range []fleet.Target{fleet.OnRank(3, 0), fleet.OnRank(2, 1), fleet.WorkerOnly(2)} {
		table, joiner, initialiser := joined(t, Config{})
		if err := initialiser.Bind(other); !errors.Is(err, ErrInitialiserLost) {
			t.Errorf("bind to %v: %v", other, err)
		}
		e, _ := table.Lookup("s")
		if e.Target != fleet.OnRank(2, 0) || e.Leases != 1 {
			t.Errorf("after a bind to %v: %+v, want 2:0 with the joiner's lease", other, e)
		}
		joiner.Release(Completed)
	}
}

// TestHoldersOfADepartedWorkerLandOnOneReplacement: the first binds it, those who
// agree get it, and a late failover to a third worker is refused.
func TestHoldersOfADepartedWorkerLandOnOneReplacement(t *testing.T) {
	table, live := newTestTable(t, Config{})
	bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
	first, second, late := acquired(t, table, "s"), acquired(t, table, "s"), acquired(t, table, "s")
	live.Publish(fleetOf(fleet.Vanished, fleet.Active, fleet.Active))
	for _, l := range []*Lease{first, second} {
		if err := l.Bind(fleet.OnRank(2, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := late.Bind(fleet.OnRank(3, 0)); !errors.Is(err, ErrConflict) {
		t.Errorf("a failover to a third worker: %v", err)
	}
	first.Release(Completed)
	if leases(table) != 1 {
		t.Errorf("%d leases, want the second's", leases(table))
	}
	second.Release(Completed)
	isBoundTo(t, acquired(t, table, "s"), fleet.OnRank(2, 0))
}

func TestLeaseOfARemovedBindingDisturbsNoNewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, outcome := range []Outcome{Completed, ClientAborted, UpstreamFailed, NeverSent} {
			table, _ := newTestTable(t, Config{TTL: time.Minute})
			old := bindTo(t, table, "s", fleet.OnRank(1, 0))
			table.Unpin("s")
			bindTo(t, table, "s", fleet.OnRank(2, 0)).Release(Completed)
			before, _ := table.Lookup("s")
			time.Sleep(time.Second)
			if err := old.Bind(fleet.OnRank(1, 0)); err != nil {
				t.Errorf("telling the dispatch again: %v", err)
			}
			old.Release(outcome)
			after, ok := table.Lookup("s")
			if before.Idle, before.ExpiresIn = after.Idle, before.ExpiresIn-time.Second; !ok || after != before {
				t.Errorf("%v: %+v became %+v", outcome, before, after)
			}
		}
	})
}
