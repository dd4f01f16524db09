package kvstate_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mooring/kvstate"
)

func TestPublishDropsOnlyTheConflictingOwner(t *testing.T) {
	c := kvstate.NewController()
	a, b, d := owner(4), owner(5), owner(6)
	c.Publish([]kvstate.Resolution{readyOn(a, 1), readyOn(b, 2), readyOn(d, 3)})
	before := c.Projection()
	report := c.Publish([]kvstate.Resolution{readyOn(a, 1), readyOn(b, 2), readyOn(a, 9), readyOn(a, 1), readyOn(d, 2)})
	want := kvstate.Report{Owners: 2, SharedWorkers: 1, Changed: true,
		Conflicts: []*kvstate.ConflictError{{Owner: a, Existing: kvstate.Worker{WorkerID: 1}, Proposed: kvstate.Worker{WorkerID: 9}}}}
	if diff := cmp.Diff(want, report); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[kvstate.CacheOwnerID]uint64{b: 2, d: 2}, projected(t, c.Projection())); diff != "" {
		t.Error(diff)
	}
	if c.Conflicts() != 1 {
		t.Errorf("%d conflicts counted", c.Conflicts())
	}
	if diff := cmp.Diff(map[kvstate.CacheOwnerID]uint64{a: 1, b: 2, d: 3}, projected(t, before)); diff != "" {
		t.Errorf("the earlier projection changed: %s", diff)
	}
	report = c.Update(readyOn(b, 1), readyOn(b, 2))
	if diff := cmp.Diff(map[kvstate.CacheOwnerID]uint64{d: 2}, projected(t, c.Projection())); diff != "" || len(report.Conflicts) != 1 {
		t.Errorf("%+v, %s", report, diff)
	}
	report = c.Update(readyOn(a, 7))
	if diff := cmp.Diff(map[kvstate.CacheOwnerID]uint64{a: 7, d: 2}, projected(t, c.Projection())); diff != "" || report.Conflicts != nil {
		t.Errorf("%+v, %s", report, diff)
	}
}

func TestPublishOfNothingEmptiesTheProjection(t *testing.T) {
	for _, rs := range [][]kvstate.Resolution{nil, {notReady(owner(5), kvstate.NoSource)}} {
		c := kvstate.NewController()
		c.Publish([]kvstate.Resolution{readyOn(owner(4), 1)})
		if report := c.Publish(rs); !report.Changed || len(projected(t, c.Projection())) != 0 {
			t.Errorf("%v: %+v", rs, report)
		}
	}
}

func TestAnUpdateWithoutAChangeSwapsNothing(t *testing.T) {
	c := kvstate.NewController()
	c.Update(readyOn(owner(4), 1))
	before := c.Projection()
	for _, r := range []kvstate.Resolution{readyOn(owner(4), 1), notReady(owner(5), kvstate.NoSource)} {
		if report := c.Update(r); report.Changed || c.Projection() != before {
			t.Errorf("%+v", report)
		}
	}
	holed := readyOn(owner(4), 1)
	holed.Holed = true
	if report := c.Update(holed); !report.Changed || c.Projection() == before {
		t.Errorf("new holes: %+v", report)
	}
	later := holed
	later.Barrier++
	if report := c.Update(later); !report.Changed {
		t.Errorf("new barrier: %+v", report)
	}
}

// TestUpdatesAgreeWithPublish runs random changes through Update, and holds each
// result against one Publish of the whole state, and earlier projections against
// what they were.
func TestUpdatesAgreeWithPublish(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 1))
		updated, published := kvstate.NewController(), kvstate.NewController()
		state := make(map[kvstate.CacheOwnerID]kvstate.Resolution)
		var earlier *kvstate.Projection
		var was map[kvstate.CacheOwnerID]uint64
		for range 80 {
			var delta []kvstate.Resolution
			for range 1 + random.IntN(3) {
				r := readyOn(numbered(random.IntN(40)), 1+random.Uint64N(8))
				r.Holed = random.IntN(4) == 0
				if random.IntN(3) == 0 {
					r = notReady(r.Owner, kvstate.EndpointUnreachable)
				}
				if slices.ContainsFunc(delta, func(d kvstate.Resolution) bool { return d.Owner == r.Owner }) {
					continue
				}
				delta = append(delta, r)
				state[r.Owner] = r
			}
			updated.Update(delta...)
			published.Publish(slices.Collect(maps.Values(state)))
			want := projected(t, published.Projection())
			if got := projected(t, updated.Projection()); !maps.Equal(want, got) {
				t.Fatalf("seed %d: %s", seed, cmp.Diff(want, got))
			}
			if earlier != nil {
				if got := projected(t, earlier); !maps.Equal(was, got) {
					t.Fatalf("seed %d: an earlier projection changed: %s", seed, cmp.Diff(was, got))
				}
			}
			earlier, was = updated.Projection(), want
		}
	}
}

// TestReadersRunBesideWriters is for the race detector: two writers, and readers
// that see each projection whole.
func TestReadersRunBesideWriters(t *testing.T) {
	c := kvstate.NewController()
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 2 {
		writers.Go(func() {
			for i := range 500 {
				o := numbered(w*100 + i%50)
				c.Update(readyOn(o, uint64(i%7)), readyOn(numbered(1000+w), uint64(i)))
				if i%5 == 0 {
					c.Update(notReady(o, kvstate.NoSource))
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p := c.Projection()
				n := 0
				for e := range p.All() {
					n++
					if w, _, ok := p.Worker(e.Key); !ok || w != e.Worker {
						t.Errorf("%v is on %v", e, w)
						return
					}
				}
				if n != p.Len() {
					t.Errorf("%d owners, Len %d", n, p.Len())
					return
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	projected(t, c.Projection())
}
