package affinity

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/fleet"
)

func TestThousandFirstRequestsMakeOneChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{})
		const requests = 1000
		var choices atomic.Int64
		targets := make(chan fleet.Target, requests)
		for range requests {
			go func() {
				l := acquired(t, table, "s")
				if _, bound := l.Target(); !bound {
					n := choices.Add(1)
					time.Sleep(time.Second) // everybody else has to wait
					if err := l.Bind(fleet.OnRank(fleet.WorkerID(n), 1)); err != nil {
						t.Error(err)
					}
				}
				got, _ := l.Target()
				targets <- got
				l.Release(Completed)
			}()
		}
		for range requests {
			if got := <-targets; got != fleet.OnRank(1, 1) {
				t.Errorf("a request got %v", got)
			}
		}
		synctest.Wait()
		if n := choices.Load(); n != 1 {
			t.Errorf("%d choices", n)
		}
		if e, ok := table.Lookup("s"); !ok || e.Leases != 0 {
			t.Errorf("in the end: %+v, %v", e, ok)
		}
	})
}

func TestWaitingCostsNoGoroutineOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{})
		turn := acquired(t, table, "s")
		const requests = 100
		before := runtime.NumGoroutine()
		for range requests {
			go func() { acquired(t, table, "s").Release(Completed) }()
		}
		synctest.Wait()
		if got := runtime.NumGoroutine() - before; got != requests {
			t.Errorf("%d goroutines for %d waiting requests", got, requests)
		}
		if got := table.waiters.Load(); got != requests {
			t.Errorf("%d waiters counted", got)
		}
		if err := turn.Bind(fleet.OnRank(1, 0)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := table.waiters.Load(); got != 0 {
			t.Errorf("%d waiters are lost", got)
		}
	})
}

func TestCancelledWaiterLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{})
		turn := acquired(t, table, "s")
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		for range 10 {
			go func() {
				l, err := table.Acquire(ctx, "s", fleet.Target{})
				l.Release(Completed)
				failed <- err
			}()
		}
		synctest.Wait()
		cancel()
		for range 10 {
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled waiter got %v", err)
			}
		}
		if n := table.waiters.Load(); n != 0 {
			t.Errorf("%d waiters are counted", n)
		}
		// The initialiser keeps its place and is the only one who holds anything.
		if err := turn.Bind(fleet.OnRank(1, 0)); err != nil {
			t.Fatal(err)
		}
		if e, _ := table.Lookup("s"); e.Leases != 1 {
			t.Errorf("%d leases, want the initialiser's", e.Leases)
		}
		turn.Release(Completed)
	})
}

func TestWaiterWakesWhenTheInitialiserGivesUpOrIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{InitTimeout: 5 * time.Second})
		first := acquired(t, table, "s")
		start := time.Now()
		order := make(chan time.Duration, 3)
		var wg sync.WaitGroup
		for range 3 { // each keeps the turn until it is lost
			wg.Go(func() {
				l := acquired(t, table, "s")
				order <- time.Since(start)
				time.Sleep(time.Minute)
				if err := l.Bind(fleet.OnRank(1, 0)); !errors.Is(err, ErrInitialiserLost) {
					t.Errorf("late bind: %v", err)
				}
			})
		}
		time.Sleep(time.Second)
		first.Release(ClientAborted)
		for i, want := range []time.Duration{time.Second, 6 * time.Second, 11 * time.Second} {
			if got := <-order; got != want {
				t.Errorf("turn %d was taken at %v, want %v", i+2, got, want)
			}
		}
		wg.Wait()
	})
}

func TestExpiryIsExactToTheNanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{TTL: 10 * time.Second})
		bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
		time.Sleep(10*time.Second - 1)
		if e, ok := table.Lookup("s"); !ok || e.ExpiresIn != 1 || e.Idle != 10*time.Second-1 {
			t.Errorf("one nanosecond before: %+v, %v", e, ok)
		}
		if got, ok, err := table.Query("s", fleet.Target{}); got != fleet.OnRank(1, 0) || !ok || err != nil {
			t.Errorf("one nanosecond before: %v, %v, %v", got, ok, err)
		}
		time.Sleep(time.Nanosecond)
		if e, ok := table.Lookup("s"); ok {
			t.Errorf("at the deadline: %+v", e)
		}
		if got, ok, _ := table.Query("s", fleet.Target{}); ok {
			t.Errorf("at the deadline: %v", got)
		}
		if _, bound := acquired(t, table, "s").Target(); bound {
			t.Error("acquired at the deadline")
		}
	})
}

func TestLiveLeaseOutlastsAnyTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{TTL: time.Second})
		l := bindTo(t, table, "s", fleet.OnRank(1, 0))
		time.Sleep(1000 * time.Hour)
		table.sweep(table.now())
		if e, ok := table.Lookup("s"); !ok || e.Idle != 0 || e.ExpiresIn != time.Second {
			t.Errorf("under a lease: %+v, %v", e, ok)
		}
		l.Release(Completed)
		time.Sleep(time.Second - 1)
		if _, ok := table.Lookup("s"); !ok {
			t.Error("the release did not restart the life")
		}
	})
}

func TestClockStepsMoveNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var skew time.Duration
		table, _ := newTestTable(t, Config{TTL: time.Minute, WallNow: func() time.Time { return time.Now().Add(skew) }})
		for i, step := range []time.Duration{0, time.Hour, -2 * time.Hour} {
			skew += step
			bindTo(t, table, strconv.Itoa(i), fleet.OnRank(1, 0)).Release(Completed)
		}
		time.Sleep(time.Minute - 1)
		var last Entry
		for i := range 3 {
			e, ok := table.Lookup(strconv.Itoa(i))
			if !ok || e.ExpiresIn != 1 || e.Sequence <= last.Sequence {
				t.Errorf("session %d: %+v, %v, after %+v", i, e, ok, last)
			}
			last = e
		}
	})
}

func TestHitAllocatesNothing(t *testing.T) {
	table, _ := newTestTable(t, Config{})
	bindTo(t, table, "s", fleet.OnRank(1, 0)).Release(Completed)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() {
		l, err := table.Acquire(ctx, "s", fleet.Target{})
		if err != nil {
			t.Fatal(err)
		}
		l.Release(Completed)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestExpiryHoldsNoLockLongerThanAMillisecond counts what each hold of a lock does
// while 100,000 bindings expire: a batch of a few tens of microseconds, however
// much is due. BenchmarkMillionSessions reports the longest hold in time.
func TestExpiryHoldsNoLockLongerThanAMillisecond(t *testing.T) {
	const sessions = 100_000
	table, _ := newTestTable(t, Config{MaxSessions: sessions})
	for i := range sessions {
		bindTo(t, table, strconv.Itoa(i), fleet.OnRank(1, 0)).Release(Completed)
	}
	end := table.now() + instant(table.rules.ttl)
	holds := 0
	for i := range table.shards {
		for more := true; more; holds++ {
			before := table.entries.Load()
			more = table.shards[i].sweep(table, end)
			if swept := before - table.entries.Load(); swept > sweepBatch {
				t.Fatalf("one hold swept %d entries, at most %d may be", swept, sweepBatch)
			}
		}
	}
	if holds < sessions/sweepBatch {
		t.Errorf("%d holds swept %d entries", holds, sessions)
	}
	if n := table.entries.Load(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

func TestExistingBindingsAreNeverEvictedByNewIds(t *testing.T) {
	table, _ := newTestTable(t, Config{MaxSessions: 100})
	for i := range 100 {
		bindTo(t, table, strconv.Itoa(i), fleet.OnRank(1, 0)).Release(Completed)
	}
	for i := range 10_000 {
		if _, err := table.Acquire(t.Context(), "flood-"+strconv.Itoa(i), fleet.Target{}); !errors.Is(err, ErrFull) {
			t.Fatalf("newcomer %d: %v", i, err)
		}
	}
	for i := range 100 {
		isBoundTo(t, acquired(t, table, strconv.Itoa(i)), fleet.OnRank(1, 0))
	}
}

func TestFullTableHasRoomAtTheDeadlineThoughNobodySwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{MaxSessions: 3, TTL: time.Minute})
		for i := range 3 {
			bindTo(t, table, strconv.Itoa(i), fleet.OnRank(1, 0)).Release(Completed)
		}
		time.Sleep(time.Minute - 1)
		if _, err := table.Acquire(t.Context(), "new", fleet.Target{}); !errors.Is(err, ErrFull) {
			t.Errorf("one nanosecond before: %v", err)
		}
		if _, err := table.Pin("new", fleet.OnRank(1, 0)); !errors.Is(err, ErrFull) {
			t.Errorf("a pin one nanosecond before: %v", err)
		}
		time.Sleep(time.Nanosecond)
		acquired(t, table, "new")
		if _, err := table.Pin("newer", fleet.OnRank(1, 0)); err != nil {
			t.Error(err)
		}
	})
}
