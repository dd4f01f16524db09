package kvstate_test

import (
	"errors"
	"slices"
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
