package kvstate_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mooring/kvstate"
)

// numbered returns one of many owners.
func numbered(n int) kvstate.CacheOwnerID {
	o := owner(4)
	o.Pool.DC = kvstate.DCID(n)
	return o
}

func readyOn(o kvstate.CacheOwnerID, worker uint64) kvstate.Resolution {
	return kvstate.Resolution{Owner: o, State: kvstate.Ready, Worker: kvstate.Worker{WorkerID: worker}, Barrier: worker + 100}
}

func notReady(o kvstate.CacheOwnerID, reason kvstate.Reason) kvstate.Resolution {
	return kvstate.Resolution{Owner: o, State: reason.State(), Reason: reason, Reasons: []kvstate.Reason{reason}}
}

func TestAggregate(t *testing.T) {
	a, b, c := owner(4), owner(5), owner(6)
	holed := readyOn(a, 1)
	holed.Holed = true
	for _, row := range []struct {
		name   string
		rs     []kvstate.Resolution
		want   map[kvstate.CacheOwnerID]uint64
		shared int
		err    *kvstate.ConflictError
	}{
		{name: "nothing", want: map[kvstate.CacheOwnerID]uint64{}},
		{name: "two owners on two workers", rs: []kvstate.Resolution{readyOn(a, 1), readyOn(b, 2)}, want: map[kvstate.CacheOwnerID]uint64{a: 1, b: 2}},
		{name: "two owners on one worker", rs: []kvstate.Resolution{readyOn(a, 1), readyOn(b, 1)}, want: map[kvstate.CacheOwnerID]uint64{a: 1, b: 1}, shared: 1},
		{name: "an exact repeat", rs: []kvstate.Resolution{readyOn(a, 1), readyOn(a, 1)}, want: map[kvstate.CacheOwnerID]uint64{a: 1}},
		{name: "unknown and unavailable project nothing", rs: []kvstate.Resolution{notReady(a, kvstate.StatusMismatch), notReady(b, kvstate.NoSource), readyOn(c, 3)},
			want: map[kvstate.CacheOwnerID]uint64{c: 3}},
		{name: "not ready beside ready", rs: []kvstate.Resolution{notReady(a, kvstate.NoSource), readyOn(a, 1), notReady(a, kvstate.NoSource)}, want: map[kvstate.CacheOwnerID]uint64{a: 1}},
		{name: "one owner on two workers", rs: []kvstate.Resolution{readyOn(b, 1), readyOn(a, 1), readyOn(a, 2)},
			err: &kvstate.ConflictError{Owner: a, Existing: kvstate.Worker{WorkerID: 1}, Proposed: kvstate.Worker{WorkerID: 2}}},
	} {
		p, err := kvstate.Aggregate(row.rs)
		var conflict *kvstate.ConflictError
		if errors.As(err, &conflict) != (row.err != nil) || row.err != nil && *conflict != *row.err {
			t.Errorf("%s: %v", row.name, err)
		}
		if row.err != nil {
			continue
		}
		if diff := cmp.Diff(row.want, projected(t, p)); diff != "" || p.SharedWorkers() != row.shared {
			t.Errorf("%s: %d shared workers, want %d; %s", row.name, p.SharedWorkers(), row.shared, diff)
		}
	}
	p, err := kvstate.Aggregate([]kvstate.Resolution{readyOn(a, 1), holed})
	if err != nil {
		t.Fatal(err)
	}
	if _, isHoled, ok := p.Worker(a.Key()); !ok || !isHoled {
		t.Error("a repeat with holes is not holed")
	}
}

// projected returns owner -> worker id, and checks the projection's inner accord.
func projected(t *testing.T, p *kvstate.Projection) map[kvstate.CacheOwnerID]uint64 {
	t.Helper()
	all := make(map[kvstate.CacheOwnerID]uint64)
	on, holedOn := make(map[kvstate.Worker]int), make(map[kvstate.Worker]bool)
	var keys []kvstate.OwnerKey
	for e := range p.All() {
		w, holed, ok := p.Worker(e.Owner.Key())
		if !ok || w != e.Worker || holed != e.Holed || e.Key != e.Owner.Key() {
			t.Fatalf("%+v is looked up as %v, %v, %v", e, w, holed, ok)
		}
		all[e.Owner] = e.Worker.WorkerID
		on[e.Worker]++
		holedOn[e.Worker] = holedOn[e.Worker] || e.Holed
		keys = append(keys, e.Key)
	}
	shared := 0
	for e := range p.All() {
		w, holed, ok := p.Worker(kvstate.WorkerKey(e.Worker))
		if !ok || w != e.Worker || holed != holedOn[e.Worker] || e.Sharing != on[e.Worker] {
			t.Fatalf("%+v: its worker is looked up as %v, %v, %v", e, w, holed, ok)
		}
	}
	for _, n := range on {
		if n > 1 {
			shared++
		}
	}
	ordered := slices.IsSortedFunc(keys, func(a, b kvstate.OwnerKey) int { return slices.Compare(a[:], b[:]) })
	if p.Len() != len(all) || p.SharedWorkers() != shared || !ordered {
		t.Fatalf("Len %d of %d owners, %d of %d shared workers, ordered %v", p.Len(), len(all), p.SharedWorkers(), shared, ordered)
	}
	return all
}

func TestEmptyProjection(t *testing.T) {
	for name, p := range map[string]*kvstate.Projection{"nil": nil, "zero": new(kvstate.Projection), "controller's": kvstate.NewController().Projection()} {
		if _, _, ok := p.Worker(owner(4).Key()); ok || len(projected(t, p)) != 0 {
			t.Errorf("%s projection is not empty", name)
		}
	}
}

// TestWorkerBlocksCountOnlyWhileAnOwnerIsReady is the contract with the index.
func TestWorkerBlocksCountOnlyWhileAnOwnerIsReady(t *testing.T) {
	c := kvstate.NewController()
	a, b, w := owner(4), owner(5), kvstate.Worker{WorkerID: 1}
	isProjected := func() bool {
		got, _, ok := c.Projection().Worker(kvstate.WorkerKey(w))
		return ok && got == w
	}
	for _, step := range []struct {
		what string
		r    kvstate.Resolution
		want bool
	}{
		{"a is ready on it", readyOn(a, 1), true},
		{"so is b", readyOn(b, 1), true},
		{"a is no longer", notReady(a, kvstate.EndpointUnreachable), true},
		{"b moves to another worker", readyOn(b, 2), false},
		{"a is ready again", readyOn(a, 1), true},
		{"a is gone", notReady(a, kvstate.NoSource), false},
	} {
		if c.Update(step.r); isProjected() != step.want {
			t.Errorf("%s: projected %v", step.what, !step.want)
		}
		projected(t, c.Projection())
	}
}

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

func TestReadingAllocatesNothing(t *testing.T) {
	c := kvstate.NewController()
	c.Update(readyOn(owner(4), 1))
	hit, worker, miss := owner(4).Key(), kvstate.WorkerKey(kvstate.Worker{WorkerID: 1}), owner(5).Key()
	if n := testing.AllocsPerRun(100, func() {
		p := c.Projection()
		_, _, a := p.Worker(hit)
		_, _, b := p.Worker(worker)
		_, _, d := p.Worker(miss)
		if !a || !b || d {
			t.Error("wrong answers")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	in := ready()
	if n := testing.AllocsPerRun(100, func() { kvstate.Resolve(in) }); n != 0 {
		t.Errorf("a ready resolution: %v allocations", n)
	}
}
