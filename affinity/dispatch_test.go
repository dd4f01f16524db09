package affinity

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/fleet"
)

func TestWorkerOnlyBindingTakesNoOtherWorkerAndNoAddedRank(t *testing.T) {
	tests := []struct {
		bound, requested string
		admitted         bool
	}{
		{"1", "", true}, {"1", "1", true}, {"1", "1:0", false}, {"1", "2", false},
		{"1:1", "", true}, {"1:1", "1", true}, {"1:1", "1:1", true}, {"1:1", "1:0", false}, {"1:1", "2:1", false},
	}
	for _, tt := range tests {
		table, _ := newTestTable(t, Config{})
		bindTo(t, table, "s", target(t, tt.bound)).Release(Completed)
		l, err := table.Acquire(t.Context(), "s", target(t, tt.requested))
		switch {
		case tt.admitted && err == nil:
			isBoundTo(t, &l, target(t, tt.bound))
		case tt.admitted || !errors.Is(err, ErrConflict) || leases(table) != 0:
			t.Errorf("bound to %s, asked for %q: %v, %d leases", tt.bound, tt.requested, err, leases(table))
		}
	}
}

func TestHardMismatchLeavesTheBinding(t *testing.T) {
	tests := []struct {
		bound, dispatched string
		admitted          bool
	}{
		{"1", "1", true}, {"1", "1:1", true}, {"1", "2", false}, {"1", "2:0", false},
		{"1:1", "1:1", true}, {"1:1", "1:0", false}, {"1:1", "1", false}, {"1:1", "2:1", false},
	}
	for _, tt := range tests {
		table, _ := newTestTable(t, Config{})
		bindTo(t, table, "s", target(t, tt.bound)).Release(Completed)
		l := acquired(t, table, "s")
		check, bind := l.Check(target(t, tt.dispatched)), l.Bind(target(t, tt.dispatched))
		if (check == nil) != tt.admitted || (bind == nil) != tt.admitted || !tt.admitted && !errors.Is(bind, ErrConflict) {
			t.Errorf("bound to %s, dispatched to %s: check %v, bind %v", tt.bound, tt.dispatched, check, bind)
		}
		l.Release(Completed)
		if e, ok := table.Lookup("s"); !ok || e.Target != target(t, tt.bound) || e.Leases != 0 {
			t.Errorf("bound to %s, dispatched to %s: became %+v", tt.bound, tt.dispatched, e)
		}
	}
}

func TestSoftBindingFollowsTheDispatchInItsForm(t *testing.T) {
	tests := []struct{ bound, dispatched, want string }{
		{"1", "1:1", "1"}, {"1", "2:1", "2"}, {"1", "2", "2"},
		{"1:1", "1:1", "1:1"}, {"1:1", "1:0", "1:0"}, {"1:1", "2:0", "2:0"}, {"1:1", "2", "1:1"}, {"1:1", "1", "1:1"},
	}
	for _, tt := range tests {
		table, _ := newTestTable(t, Config{Mode: Soft})
		bindTo(t, table, "s", target(t, tt.bound)).Release(Completed)
		l := acquired(t, table, "s")
		if err := l.Check(target(t, tt.dispatched)); err != nil {
			t.Errorf("bound to %s, dispatched to %s: check %v", tt.bound, tt.dispatched, err)
		}
		if err := l.Bind(target(t, tt.dispatched)); err != nil {
			t.Errorf("bound to %s, dispatched to %s: %v", tt.bound, tt.dispatched, err)
		}
		if e, _ := table.Lookup("s"); e.Target != target(t, tt.want) || e.Leases != 1 {
			t.Errorf("bound to %s, dispatched to %s: %+v, want %s and one lease", tt.bound, tt.dispatched, e, tt.want)
		}
		l.Release(Completed)
	}
}

func TestOfTwoSoftMovesTheFirstWins(t *testing.T) {
	table, _ := newTestTable(t, Config{Mode: Soft})
	bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
	a, b := acquired(t, table, "s"), acquired(t, table, "s")
	if err := a.Bind(fleet.OnRank(2, 0)); err != nil {
		t.Fatal(err)
	}
	if err := b.Bind(fleet.OnRank(3, 0)); err != nil {
		t.Errorf("the second: %v", err)
	}
	a.Release(Completed)
	b.Release(Completed)
	isBoundTo(t, acquired(t, table, "s"), fleet.OnRank(2, 0))
}

func TestSoftBindingSurvivesAFailedAttempt(t *testing.T) {
	for _, outcome := range []Outcome{UpstreamFailed, NeverSent, ClientAborted} {
		table, _ := newTestTable(t, Config{Mode: Soft})
		bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
		acquired(t, table, "s").Release(outcome)
		l := acquired(t, table, "s")
		isBoundTo(t, l, fleet.OnRank(1, 0))
		if err := l.Bind(fleet.OnRank(2, 0)); err != nil {
			t.Error(err)
		}
		l.Release(Completed)
		isBoundTo(t, acquired(t, table, "s"), fleet.OnRank(2, 0))
	}
}

func TestCheckRefusesOnlyALiveHardMismatchAndChangesNothing(t *testing.T) {
	for _, mode := range []Mode{Hard, Soft} {
		table, live := newTestTable(t, Config{Mode: mode})
		fresh := acquired(t, table, "new")
		bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
		l := acquired(t, table, "s")
		before := dumpTable(table, 0)
		if err := l.Check(fleet.OnRank(2, 0)); (err != nil) != (mode == Hard) {
			t.Errorf("%v, live: %v", mode, err)
		}
		if err := fresh.Check(fleet.OnRank(2, 0)); err != nil {
			t.Errorf("%v, a turn: %v", mode, err)
		}
		live.Publish(fleetOf(fleet.Vanished, fleet.Active))
		if err := l.Check(fleet.OnRank(2, 0)); err != nil {
			t.Errorf("%v, departed: %v", mode, err)
		}
		if after := dumpTable(table, 0); after != before {
			t.Errorf("%v: %s became %s", mode, before, after)
		}
		l.Release(Completed)
		fresh.Release(Completed)
	}
}

// TestRequestedTargetIsCheckedAfterLiveness: naming a new worker succeeds when
// the bound one is gone, in every form of on_worker_gone.
func TestRequestedTargetIsCheckedAfterLiveness(t *testing.T) {
	for _, mode := range []WhenGone{Rebind, Fail, Wait} {
		table, live := boundAndGone(t, Config{WhenGone: mode})
		l, err := table.Acquire(t.Context(), "s", fleet.OnRank(2, 1))
		if err != nil || !l.Moved() {
			t.Fatalf("%v: %v, moved %v", mode, err, l.Moved())
		}
		if err := l.Bind(fleet.OnRank(2, 1)); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
		l.Release(Completed)
		live.Publish(fleetOf(fleet.Active, fleet.Active, fleet.Active))
		isBoundTo(t, acquired(t, table, "s"), fleet.OnRank(2, 1))
	}
}

// TestNewSessionBindsOnlyWhereItAsked, and is left unbound if dispatched elsewhere.
func TestNewSessionBindsOnlyWhereItAsked(t *testing.T) {
	table, _ := newTestTable(t, Config{})
	for _, elsewhere := range []string{"2:0", "1:0"} {
		l, err := table.Acquire(t.Context(), "s", target(t, "1:1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Bind(target(t, elsewhere)); !errors.Is(err, ErrConflict) {
			t.Errorf("bind to %s: %v", elsewhere, err)
		}
		if n := table.entries.Load(); n != 0 || leases(table) != -1 {
			t.Errorf("after a bind to %s: %d entries, %d leases", elsewhere, n, leases(table))
		}
	}
}

func TestQueryLeavesAnExpiredEntryInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{TTL: time.Second})
		bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
		time.Sleep(time.Second)
		if got, ok, err := table.Query("s", fleet.OnRank(2, 0)); ok || err != nil {
			t.Errorf("query of an expired session: %v, %v, %v", got, ok, err)
		}
		if n := table.entries.Load(); n != 1 {
			t.Errorf("%d entries, want the expired one", n)
		}
	})
}

// TestRequestPublishesOnceWhenItBindsAndOnceWhenItEnds, with the same binding and
// version, and nothing more; a later turn publishes its end alone.
func TestRequestPublishesOnceWhenItBindsAndOnceWhenItEnds(t *testing.T) {
	var heard []string
	table, _ := newTestTable(t, Config{WriterID: 7, Publish: func(p fleet.Partition, e Event) {
		heard = append(heard, fmt.Sprintf("%v %s %v by %d", e.Kind, e.Session, e.Target, e.WriterID))
	}})
	l := bindTo(t, table, "s", fleet.OnRank(1, 1))
	bound, _ := table.Lookup("s")
	l.Release(Completed)
	l.Release(Completed)
	if used, _ := table.Lookup("s"); used.Sequence != bound.Sequence || used.WriterID != bound.WriterID {
		t.Errorf("version %d/%d became %d/%d by a use", bound.Sequence, bound.WriterID, used.Sequence, used.WriterID)
	}
	later := acquired(t, table, "s")
	if err := later.Bind(fleet.OnRank(1, 1)); err != nil {
		t.Fatal(err)
	}
	later.Release(Completed)
	if want := []string{"bound s 1:1 by 7", "used s 1:1 by 7", "used s 1:1 by 7"}; !slices.Equal(heard, want) {
		t.Errorf("published %q, want %q", heard, want)
	}
}
