package affinity

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mooring/internal/fleet"
)

// TestMillionOperationsUnderStress has 16 goroutines play requests, operators,
// the sweeper and the fleet on few sessions, where everything meets everything.
// Nothing may be left in the end.
func TestMillionOperationsUnderStress(t *testing.T) {
	operations := int64(1_000_000)
	if testing.Short() {
		operations = 100_000
	}
	table, live := newCrowdedTable(t, Config{TTL: time.Second, MaxSessions: 48, InitTimeout: 50 * time.Millisecond, WaitFor: time.Millisecond})
	var left atomic.Int64
	left.Store(operations)
	var wg sync.WaitGroup
	for g := range uint64(16) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(g, 2))
			for left.Add(-1) >= 0 {
				stressOnce(t, table, live, rng)
			}
		})
	}
	wg.Wait()
	table.sweep(table.now() + instant(time.Minute))
	bindings, leases := table.counts()
	if n := table.entries.Load(); n != 0 || bindings != 0 || leases != 0 || table.waiters.Load() != 0 {
		t.Errorf("left over: %d entries, %d bindings, %d leases, %d waiters", n, bindings, leases, table.waiters.Load())
	}
	for i := range table.shards {
		if n := len(table.shards[i].mu.entries) + len(table.shards[i].mu.due); n != 0 {
			t.Errorf("shard %d keeps %d", i, n)
		}
	}
}

func stressOnce(t *testing.T, table *Table, live *fleet.Live, rng *rand.Rand) {
	session := strconv.Itoa(rng.IntN(64))
	at := fleet.OnRank(fleet.WorkerID(rng.IntN(3)+1), uint32(rng.IntN(2)))
	switch op := rng.IntN(1000); {
	case op < 2:
		states := []fleet.State{fleet.Active, fleet.Active, fleet.Active}
		states[rng.IntN(3)] = fleet.States[rng.IntN(4)]
		live.Publish(fleetOf(states...))
	case op < 4:
		table.sweep(table.now() + instant(rng.Int64N(int64(2*time.Second))))
	case op < 10:
		if _, err := table.Pin(session, at); err != nil && !errors.Is(err, ErrFull) {
			t.Error(err)
		}
	case op < 20:
		table.Unpin(session)
	case op < 30:
		table.Lookup(session)
	default:
		stressRequest(t, table, session, at, rng)
	}
}

func stressRequest(t *testing.T, table *Table, session string, at fleet.Target, rng *rand.Rand) {
	requested := fleet.Target{}
	if rng.IntN(20) == 0 {
		requested = at
	}
	l, err := table.Acquire(t.Context(), session, requested)
	if err != nil {
		if !errors.Is(err, ErrFull) && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrWorkerGone) {
			t.Error(err)
		}
		return
	}
	got, bound := l.Target()
	if bound && !admitsRequest(got, requested) {
		t.Errorf("got %v, asked for %v", got, requested)
	}
	if !bound && rng.IntN(10) == 0 { // gives up
		l.Release(ClientAborted)
		return
	}
	if !bound || rng.IntN(4) == 0 {
		err := l.Bind(at)
		if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrInitialiserLost) {
			t.Error(err)
		}
	}
	if rng.IntN(8) == 0 {
		runtime.Gosched()
	}
	l.Release(Outcome(rng.IntN(4)))
	l.Release(Completed)
}
