package index

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNamesSameAsMap grows a table to thousands of names and shrinks it again, with
// a map beside it.
func TestNamesSameAsMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	table, want := names{seed: 42}, map[uint64]uint32{}
	for step := range 200_000 {
		external := rng.Uint64N(20_000)
		if step/50_000%2 == 1 { // every other quarter mostly removes
			external = rng.Uint64N(100_000)
		}
		e := table.find(external)
		if got, ok := want[external]; (e != nil) != ok || ok && e.node != got {
			t.Fatalf("find(%d) = %v, want %d, %t", external, e, got, ok)
		}
		switch {
		case e != nil && (step/50_000%2 == 1 || rng.IntN(4) == 0):
			table.remove(external)
			delete(want, external)
		case e == nil && step/50_000%2 == 0:
			table.insert(name{external: external, node: uint32(step + 1)})
			want[external] = uint32(step + 1)
		}
		if table.n != len(want) {
			t.Fatalf("%d names, want %d", table.n, len(want))
		}
	}
	for _, external := range slices.Collect(maps.Keys(want)) {
		table.remove(external)
	}
	for s, seg := range table.segments {
		if seg != nil {
			t.Errorf("segment %d keeps %d slots", s, len(seg))
		}
	}
}

// TestEdgesSameAsMap does the same for the children of a few nodes.
func TestEdgesSameAsMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type key struct {
		parent uint32
		local  uint64
	}
	nodes, e, want := newArena[node](50_000), edges{seed: 7}, map[key]uint32{}
	for step := range 80_000 {
		k := key{uint32(rng.IntN(3)), rng.Uint64N(3_000)}
		id, _ := e.find(&nodes, k.parent, k.local)
		if id != want[k] {
			t.Fatalf("find(%v) = %d, want %d", k, id, want[k])
		}
		filling := step/20_000%2 == 0
		switch {
		case id != 0 && (!filling || rng.IntN(4) == 0):
			e.remove(k.parent, k.local, id)
			nodes.give(id)
			delete(want, k)
		case id == 0 && filling:
			id, _ = nodes.take()
			n := nodes.at(id)
			n.parent, n.local = k.parent, k.local
			e.insert(k.parent, k.local, id)
			want[k] = id
		}
		s := &e.shards[e.hash(k.parent, k.local)>>56]
		if table := s.table.Load(); table != nil && len(table.slots) > max(edgesLeast, 8*s.live) {
			t.Fatalf("%d slots for %d children", len(table.slots), s.live)
		}
	}
	for k, id := range want {
		e.remove(k.parent, k.local, id)
	}
	for i := range e.shards {
		if e.shards[i].table.Load() != nil {
			t.Errorf("shard %d keeps a table", i)
		}
	}
}

// TestArenaGivesMemoryBack fills, empties and refills an arena: no id is given
// twice, full is full, and of what is empty only the first and the current chunk
// stay.
func TestArenaGivesMemoryBack(t *testing.T) {
	a := newArena[uint64](5 * chunkSize)
	rng := rand.New(rand.NewPCG(1, 3))
	for round := range 3 {
		out := map[uint32]bool{}
		for {
			id, ok := a.take()
			if !ok {
				break
			}
			if id == 0 || out[id] {
				t.Fatalf("round %d: id %d again", round, id)
			}
			out[id] = true
		}
		if want := 7*chunkSize - 1 - chunkSize; len(out) < want-chunkSize || a.live != len(out) {
			t.Fatalf("round %d: %d items, live %d", round, len(out), a.live)
		}
		ids := slices.Sorted(maps.Keys(out))
		rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, id := range ids {
			a.give(id)
		}
		chunks := 0
		for i := range a.chunks {
			if a.chunks[i].Load() != nil {
				chunks++
			}
		}
		if a.live != 0 || chunks > 2 {
			t.Fatalf("round %d: %d live, %d chunks stay", round, a.live, chunks)
		}
	}
}

// TestEpochsWaitForLookUps: what was taken out while a look-up was under way is not
// given back before it ends.
func TestEpochsWaitForLookUps(t *testing.T) {
	ix := newIndex(100, newMetrics())
	o := testOwners[0]
	ix.Store(o, 0, 0, false, chain(1, 3))
	in := ix.epochs.enter(3)
	ix.Remove(o, 0, []uint64{1, 2, 3})
	if n := ix.nodes.live; n != 3 {
		t.Fatalf("%d nodes are left beside a look-up, want 3", n)
	}
	// A look-up that begins later does not keep them.
	later := ix.epochs.enter(4)
	in.Add(-1)
	ix.Store(o, 0, 0, false, chain(10, 1))
	if n := ix.nodes.live; n != 1 {
		t.Fatalf("%d nodes are left once the look-up is over, want 1", n)
	}
	later.Add(-1)
}

// TestOrphansStoredAnewAreYoung: one that was removed and came again is not the
// oldest by what is remembered of it, nor is more remembered each time.
func TestOrphansStoredAnewAreYoung(t *testing.T) {
	ix, o := newIndex(2, newMetrics()), testOwners[0]
	ix.Store(o, 0, 100, true, chain(1, 1))
	ix.Store(o, 0, 100, true, chain(2, 1))
	for range 1000 {
		ix.Remove(o, 0, []uint64{1})
		ix.Store(o, 0, 100, true, chain(1, 1))
	}
	q := &ix.mu.owners[o.id()].orphan
	if n := len(q.order); n > 2*len(q.blocks)+16 {
		t.Errorf("%d ages of %d orphans", n, len(q.blocks))
	}
	ix.Store(o, 0, 100, true, chain(3, 1)) // takes the oldest's room
	if q.blocks[1] == nil || q.blocks[2] != nil {
		t.Errorf("the oldest of two is kept: %v", q.blocks)
	}
}
