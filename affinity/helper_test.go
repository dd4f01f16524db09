package affinity

import (
	"context"
	"fmt"
	"testing"
	"time"

	"mooring/internal/fleet"
)

// mooring is the partition of most tests.
var mooring = fleet.Partition{Model: "m", Group: fleet.DefaultName}

// fleetOf returns a view of workers 1, 2, 3, ... in the given states, each with
// two ranks.
func fleetOf(states ...fleet.State) *fleet.View {
	workers := make([]fleet.Worker, len(states))
	for i, s := range states {
		id := fleet.WorkerID(i + 1)
		workers[i] = fleet.Worker{
			ID: id, Address: fmt.Sprintf("10.0.0.%d:8000", id), Models: []string{mooring.Model}, Group: mooring.Group, Ranks: 2, State: s,
		}
	}
	return fleet.NewView(workers)
}

// newTestResolver returns a resolver over a fleet of three active workers.
func newTestResolver(tb testing.TB, cfg Config) (*Resolver, *fleet.Live) {
	tb.Helper()
	live := fleet.NewLive(fleetOf(fleet.Active, fleet.Active, fleet.Active))
	r, err := NewResolver(live, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return r, live
}

// newTestTable returns the table of mooring over a fleet of three active workers.
func newTestTable(tb testing.TB, cfg Config) (*Table, *fleet.Live) {
	tb.Helper()
	r, live := newTestResolver(tb, cfg)
	t, ok := r.Table(mooring)
	if !ok {
		tb.Fatal("no table for a partition of the fleet")
	}
	return t, live
}

// newCrowdedTable is newTestTable with two locks only, so that sessions meet.
func newCrowdedTable(tb testing.TB, cfg Config) (*Table, *fleet.Live) {
	tb.Helper()
	r, live := newTestResolver(tb, cfg)
	return newTable(r, mooring, 2), live
}

// bindTo binds a new session and returns the lease.
func bindTo(tb testing.TB, t *Table, session string, target fleet.Target) *Lease {
	tb.Helper()
	l := acquired(tb, t, session)
	if err := l.Bind(target); err != nil {
		tb.Fatalf("bind %q: %v", session, err)
	}
	return l
}

// acquired acquires for a request that insists on nothing.
func acquired(tb testing.TB, t *Table, session string) *Lease {
	tb.Helper()
	l, err := t.Acquire(tb.Context(), session, fleet.Target{})
	if err != nil {
		tb.Fatalf("acquire %q: %v", session, err)
	}
	return &l
}

// isBoundTo fails the test unless l's target is the wanted one.
func isBoundTo(tb testing.TB, l *Lease, want fleet.Target) {
	tb.Helper()
	if got, ok := l.Target(); !ok || got != want {
		tb.Errorf("target = %v, %v; want %v", got, ok, want)
	}
}

// contextWithin returns a context of the test that ends after d.
func contextWithin(tb testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(tb.Context(), d)
}
