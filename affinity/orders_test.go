package affinity

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/fleet"
)

// permutations calls f with every order of 0..n-1.
func permutations(n int, f func(order []int)) {
	var extend func(order []int)
	extend = func(order []int) {
		if len(order) == n {
			f(order)
			return
		}
	next:
		for i := range n {
			for _, j := range order {
				if i == j {
					continue next
				}
			}
			extend(append(order, i))
		}
	}
	extend(make([]int, 0, n))
}

// TestEveryOrderOfUnpinsAndBindingsEndsAlike delivers two unpins, an older
// binding twice, and a newer one in every order, each event once, twice or a
// hundred times.
func TestEveryOrderOfUnpinsAndBindingsEndsAlike(t *testing.T) {
	event := func(kind EventKind, worker fleet.WorkerID, sequence uint64) Event {
		e := Event{Kind: kind, Session: "s", Sequence: sequence, WriterID: 1, Life: time.Minute}
		if worker != 0 {
			e.Target = fleet.OnRank(worker, 0)
		}
		return e
	}
	events := []Event{event(EventUnpinned, 0, 5), event(EventBound, 1, 3), event(EventUnpinned, 0, 4), event(EventBound, 1, 3), event(EventBound, 2, 6)}
	for _, c := range []struct {
		events []Event
		want   string
	}{
		{events, " 2:0 6/1 1m0s floor 5/1 1m0s"},
		{events[:4], " floor 5/1 1m0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			permutations(len(c.events), func(order []int) {
				for _, times := range []int{1, 2, 100} {
					table, _ := newTestTable(t, Config{})
					for _, i := range order {
						for range times {
							table.Apply(c.events[i])
						}
					}
					if got := table.held("s"); got != c.want {
						t.Fatalf("order %v, each %d times: %q, want %q", order, times, got, c.want)
					}
				}
			})
		})
	}
}

// merged returns a table that holds the join of the given ones.
func merged(t *testing.T, from ...*Table) *Table {
	table, _ := newTestTable(t, Config{})
	for _, other := range from {
		for _, r := range records(other) {
			table.Apply(r.Event)
		}
	}
	return table
}

// TestMergeOfTablesIsAJoin merges whole tables in random states: which with which
// first makes no difference, nor does merging one twice.
func TestMergeOfTablesIsAJoin(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			table := func() *Table {
				table, _ := newTestTable(t, Config{})
				for _, e := range randomEvents(rng, rng.IntN(8)) {
					table.Apply(e)
				}
				return table
			}
			a, b, c := table(), table(), table()
			same := func(law string, x, y *Table) {
				for i := range 3 {
					s := fmt.Sprint("s", i)
					if x.held(s) != y.held(s) {
						t.Errorf("seed %d, %s, session %s: %q and %q", seed, law, s, x.held(s), y.held(s))
					}
				}
				if x.Digest() != y.Digest() {
					t.Errorf("seed %d, %s: the digests differ", seed, law)
				}
			}
			same("commutative", merged(t, a, b), merged(t, b, a))
			same("associative", merged(t, merged(t, a, b), c), merged(t, a, merged(t, b, c)))
			same("idempotent", merged(t, a, a), a)
		})
	}
}
