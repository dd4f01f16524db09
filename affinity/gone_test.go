package affinity

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/fleet"
)

// boundAndGone returns a table with session "s" bound to worker 1, which then
// became unhealthy.
func boundAndGone(t *testing.T, cfg Config) (*Table, *fleet.Live) {
	t.Helper()
	table, live := newTestTable(t, cfg)
	bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
	live.Publish(fleetOf(fleet.Unhealthy, fleet.Active, fleet.Active))
	return table, live
}

func TestWaitEndsWhenTheWorkerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, live := boundAndGone(t, Config{WhenGone: Wait, WaitFor: 5 * time.Second})
		start := time.Now()
		got := make(chan *Lease)
		go func() { got <- acquired(t, table, "s") }()
		time.Sleep(time.Second)
		live.Publish(fleetOf(fleet.Unhealthy, fleet.Active, fleet.Draining)) // another change wakes nobody for good
		time.Sleep(time.Second)
		live.Publish(fleetOf(fleet.Active, fleet.Active, fleet.Active))
		l := <-got
		isBoundTo(t, l, fleet.OnRank(1, 0))
		if took := time.Since(start); took != 2*time.Second || l.Moved() {
			t.Errorf("after %v, moved %v", took, l.Moved())
		}
		if n := table.waiters.Load(); n != 0 {
			t.Errorf("%d waiters are left", n)
		}
	})
}

func TestWaitIsBoundedAndLeavesTheBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, live := boundAndGone(t, Config{WhenGone: Wait, WaitFor: 5 * time.Second})
		before, _ := table.Lookup("s")
		start := time.Now()
		if _, err := table.Acquire(t.Context(), "s", fleet.Target{}); !errors.Is(err, ErrWorkerGone) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("waited %v", took)
		}
		after, ok := table.Lookup("s")
		if !ok || after.Leases != 0 || before.ExpiresIn-after.ExpiresIn != 5*time.Second || after.Schedulable {
			t.Errorf("before %+v, after %+v", before, after)
		}
		live.Publish(fleetOf(fleet.Active, fleet.Active, fleet.Active))
		isBoundTo(t, acquired(t, table, "s"), fleet.OnRank(1, 0))
	})
}

func TestWaitCutByItsContextIsStillWorkerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := boundAndGone(t, Config{WhenGone: Wait, WaitFor: 5 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := table.Acquire(ctx, "s", fleet.Target{})
		if !errors.Is(err, ErrWorkerGone) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestBindingThatExpiresWhileWaitingIsNoSilentMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, live := boundAndGone(t, Config{WhenGone: Wait, WaitFor: time.Minute, TTL: 10 * time.Second})
		got := make(chan *Lease)
		go func() { got <- acquired(t, table, "s") }()
		time.Sleep(11 * time.Second)
		live.Publish(fleetOf(fleet.Unhealthy, fleet.Active, fleet.Active))
		l := <-got
		if _, bound := l.Target(); bound || !l.Moved() {
			t.Errorf("bound %v, moved %v; want the turn, moved", bound, l.Moved())
		}
		l.Release(Completed)
	})
}

func TestRebindIsOneMoveForAllRequestsThatFollow(t *testing.T) {
	var bound []Event
	table, live := newTestTable(t, Config{Publish: func(_ fleet.Partition, e Event) {
		if e.Kind == EventBound {
			bound = append(bound, e)
		}
	}})
	bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
	bindTo(t, table, "other", fleet.OnRank(2, 0)).Release(Completed)
	live.Publish(fleetOf(fleet.Vanished, fleet.Active, fleet.Active))
	first := acquired(t, table, "s")
	if !first.Moved() {
		t.Error("the re-binding request does not say so")
	}
	if err := first.Bind(fleet.OnRank(3, 0)); err != nil {
		t.Fatal(err)
	}
	first.Release(Completed)
	for range 4 {
		l := acquired(t, table, "s")
		isBoundTo(t, l, fleet.OnRank(3, 0))
		if l.Moved() {
			t.Error("a later request says that it moved")
		}
		l.Release(Completed)
	}
	isBoundTo(t, acquired(t, table, "other"), fleet.OnRank(2, 0))
	if len(bound) != 3 || bound[2].Sequence <= bound[0].Sequence {
		t.Errorf("published %+v", bound)
	}
}

func TestFlappingWorkerMovesEachSessionAtMostOnce(t *testing.T) {
	table, live := newTestTable(t, Config{})
	bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
	moves := 0
	for i := range 40 {
		state := fleet.Active
		if i%2 == 0 {
			state = fleet.Unhealthy
		}
		live.Publish(fleetOf(state, fleet.Active, fleet.Active))
		l := acquired(t, table, "s")
		if _, bound := l.Target(); !bound {
			moves++
			if err := l.Bind(fleet.OnRank(2, 0)); err != nil {
				t.Fatal(err)
			}
		}
		l.Release(Completed)
	}
	if moves != 1 {
		t.Errorf("%d moves", moves)
	}
}

func TestVanishedWorkerThatReturnsKeepsTheSessionsNobodyAskedFor(t *testing.T) {
	for _, mode := range []WhenGone{Rebind, Fail, Wait} {
		table, live := boundAndGone(t, Config{WhenGone: mode})
		live.Publish(fleetOf(fleet.Vanished, fleet.Active, fleet.Active))
		live.Publish(fleet.NewView(nil)) // an empty answer
		live.Publish(fleetOf(fleet.Active, fleet.Active, fleet.Active))
		isBoundTo(t, acquired(t, table, "s"), fleet.OnRank(1, 0))
	}
}

// TestRestartedWorkerIsAnotherWorker: an incarnation has its own id, so the same
// address under a new id is no home for the old one's sessions.
func TestRestartedWorkerIsAnotherWorker(t *testing.T) {
	table, live := newTestTable(t, Config{})
	bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
	live.Publish(fleet.NewView([]fleet.Worker{{
		ID: 99, Address: "10.0.0.1:8000", Models: []string{mooring.Model}, Group: mooring.Group, Ranks: 1, State: fleet.Active,
	}}))
	if l := acquired(t, table, "s"); !l.Moved() {
		t.Error("the session went to the new incarnation as if it were the old one")
	}
}

func TestDrainingWorkerGetsNoNextTurn(t *testing.T) {
	table, live := newTestTable(t, Config{})
	running := bindTo(t, table, "s", fleet.OnRank(1, 0))
	live.Publish(fleetOf(fleet.Draining, fleet.Active, fleet.Active))
	next := acquired(t, table, "s")
	if _, bound := next.Target(); bound {
		t.Error("the next turn went to a draining worker")
	}
	isBoundTo(t, running, fleet.OnRank(1, 0))
	running.Release(Completed)
	next.Release(Completed)
}

func TestRefusedRequestPublishesAndKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []Event
		table, _ := newTestTable(t, Config{Publish: func(_ fleet.Partition, e Event) { events = append(events, e) }})
		bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
		before, _ := table.Lookup("s")
		published := len(events)
		time.Sleep(time.Second)
		for _, requested := range []fleet.Target{fleet.WorkerOnly(2), fleet.OnRank(1, 1), fleet.OnRank(77, 0)} {
			l, err := table.Acquire(t.Context(), "s", requested)
			if !errors.Is(err, ErrConflict) {
				t.Errorf("%v: %v", requested, err)
			}
			l.Release(Completed)
		}
		after, ok := table.Lookup("s")
		if before.ExpiresIn -= time.Second; !ok || after.ExpiresIn != before.ExpiresIn || after.Leases != 0 || after.Sequence != before.Sequence {
			t.Errorf("before %+v, after %+v", before, after)
		}
		if len(events) != published {
			t.Errorf("published %+v", events[published:])
		}
	})
}
