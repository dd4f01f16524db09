package index

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"mooring/kvstate"
)

// pair is an index and its naive twin, driven alike.
type pair struct {
	t  *testing.T
	ix *Index
	nv *naive
	m  Matches
}

func newPair(t *testing.T, max int) *pair {
	return &pair{t: t, ix: newIndex(max, newMetrics()), nv: newNaive(max)}
}

// step does one operation that bytes of input choose, on few owners and few
// hashes, so that everything meets everything. It returns the rest of the input.
func (p *pair) step(in []byte) []byte {
	next := func(n int) int {
		if len(in) == 0 {
			return 0
		}
		v := int(in[0]) % n
		in = in[1:]
		return v
	}
	op := next(16)
	o := testOwners[next(len(testOwners))]
	tier := kvstate.Tier(next(tiers))
	if next(2) == 0 {
		tier = kvstate.Device
	}
	switch {
	case op < 9:
		parent, hasParent := uint64(next(12)), next(4) != 0
		blocks := make([]kvstate.Block, next(4))
		for i := range blocks {
			external := uint64(next(12))
			blocks[i] = kvstate.Block{External: external, Local: 100 + external%uint64(1+next(5))}
		}
		got, want := p.ix.Store(o, tier, parent, hasParent, blocks), p.nv.store(o, tier, parent, hasParent, blocks)
		if got != want {
			p.t.Fatalf("Store(%v, %s, %d, %t, %v) = %+v, want %+v", o, tier, parent, hasParent, blocks, got, want)
		}
	case op < 15:
		external := make([]uint64, next(4))
		for i := range external {
			external[i] = uint64(next(12))
		}
		if got, want := p.ix.Remove(o, tier, external), p.nv.remove(o, tier, external); got != want {
			p.t.Fatalf("Remove(%v, %s, %d) = %d, want %d", o, tier, external, got, want)
		}
	default:
		p.ix.Clear(o)
		p.nv.clear(o)
	}
	return in
}

// compare looks the same prompts up in both, through several projections.
func (p *pair) compare(rng *rand.Rand) {
	check(p.t, p.ix)
	if got, want := p.ix.nodes.live, len(p.nv.places()); got != want {
		p.t.Fatalf("%d nodes, want %d", got, want)
	}
	for _, o := range testOwners {
		want := 0
		if own := p.nv.owners[o.id()]; own != nil {
			want = len(own.placed)
		}
		if got := p.ix.Blocks(o); got != want {
			p.t.Fatalf("Blocks(%v) = %d, want %d", o, got, want)
		}
	}
	for range 8 {
		local := make([]uint64, rng.IntN(5))
		for i := range local {
			local[i] = 100 + uint64(rng.IntN(5))
		}
		proj := testProjections[rng.IntN(len(testProjections))]
		p.ix.Match(proj, local, &p.m)
		if want := p.nv.match(proj, local); !slices.Equal(p.m.All(), want) {
			p.t.Fatalf("Match(%d)\n got %+v\nwant %+v\n%s", local, p.m.All(), want, dump(p.ix))
		}
	}
}

var testOwners = []Owner{
	{Key: kvstate.WorkerKey(kvstate.Worker{WorkerID: 1})},
	{Key: kvstate.WorkerKey(kvstate.Worker{WorkerID: 1, DPRank: 1})},
	{Key: kvstate.WorkerKey(kvstate.Worker{WorkerID: 2})},
	{Key: cacheOwner(1).Key(), Domain: kvstate.CacheOwnerDomain, Engine: kvstate.WorkerKey(kvstate.Worker{WorkerID: 1})},
	{Key: cacheOwner(2).Key(), Domain: kvstate.CacheOwnerDomain},
}

var testProjections = []*kvstate.Projection{
	nil,
	project(ready(1, 1, 0, false)),
	project(ready(1, 1, 0, false), ready(2, 2, 0, true)),
	project(ready(1, 2, 0, true), ready(2, 2, 0, false)),
	project(ready(1, 1, 1, false), ready(2, 1, 0, false), ready(3, 2, 0, false)),
}

// cacheOwner is a cache owner that is told by one byte.
func cacheOwner(n byte) (id kvstate.CacheOwnerID) {
	id.Slot.Digest[0] = n
	return id
}

func ready(owner byte, worker uint64, rank uint32, holed bool) kvstate.Resolution {
	return kvstate.Resolution{Owner: cacheOwner(owner), State: kvstate.Ready, Worker: kvstate.Worker{WorkerID: worker, DPRank: rank}, Holed: holed}
}

func project(rs ...kvstate.Resolution) *kvstate.Projection {
	p, err := kvstate.Aggregate(rs)
	if err != nil {
		panic(err)
	}
	return p
}

// TestSameAsNaive drives both by random operations, with room for all and without.
func TestSameAsNaive(t *testing.T) {
	for seed := range uint64(24) {
		max := []int{unlimited, 20, 9}[seed%3]
		t.Run(fmt.Sprintf("seed=%d,max=%d", seed, max), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			p := newPair(t, max)
			in := make([]byte, 16)
			for n := range 200 {
				for i := 0; i < len(in); i += 8 {
					binary.LittleEndian.PutUint64(in[i:], rng.Uint64())
				}
				p.step(in)
				if n%8 == 0 {
					p.compare(rng)
				}
			}
			for _, o := range testOwners {
				p.ix.Clear(o)
			}
			checkEmpty(t, p.ix)
		})
	}
}

// FuzzSameAsNaive lets the fuzzer choose the operations.
func FuzzSameAsNaive(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz"), byte(0))
	f.Add([]byte{0, 0, 0, 0, 1, 3, 2, 1, 2, 3, 4, 5, 0, 3, 0, 1, 0, 0, 4, 3, 3, 2, 1}, byte(20))
	f.Fuzz(func(t *testing.T, in []byte, max byte) {
		in = in[:min(len(in), 4096)] // more only costs time
		p, rng := newPair(t, int(max)+1), rand.New(rand.NewPCG(uint64(max), 2))
		for len(in) > 0 {
			in = p.step(in)
		}
		p.compare(rng)
	})
}

// check verifies the invariants that the comments state.
func check(t *testing.T, ix *Index) {
	t.Helper()
	nodes, pairs := map[uint32]bool{}, 0
	holding := map[string]int{}
	for _, own := range ix.mu.owners {
		pairs += own.names.n
		for _, e := range allNames(own) {
			if e.counts == [tiers]uint8{} {
				t.Fatalf("name %d of %v holds nothing", e.external, own.id)
			}
			for tier, n := range e.counts {
				if n > 0 {
					holding[fmt.Sprint(e.node, keyOf(own.slot, kvstate.Tier(tier)), bitOf(own.slot))]++
				}
			}
			for id := e.node; id != root; id = ix.nodes.at(id).parent {
				nodes[id] = true
			}
		}
	}
	if pairs != ix.mu.pairs || len(nodes) != ix.nodes.live || ix.mu.dying != 0 || !ix.mu.limbo[0].empty() || !ix.mu.limbo[1].empty() {
		t.Fatalf("%d pairs, counted %d; %d nodes, counted %d; %d dying; limbo %v", pairs, ix.mu.pairs, len(nodes), ix.nodes.live, ix.mu.dying, ix.mu.limbo)
	}
	bits := 0
	for id := range nodes {
		n := ix.nodes.at(id)
		if found, _ := ix.child(ix.nodes.at(n.parent), n.parent, n.local); found != id {
			t.Fatalf("node %d is not its parent's child: found %d", id, found)
		}
		for _, h := range masks(ix, n) {
			for mask := h.mask; mask != 0; mask &= mask - 1 {
				bits++
				if holding[fmt.Sprint(id, h.key, mask&-mask)] == 0 {
					t.Fatalf("node %d has a bit %x under %d that nobody's names account for", id, mask&-mask, h.key)
				}
			}
		}
	}
	if bits != len(holding) {
		t.Fatalf("%d bits are set, names account for %d", bits, len(holding))
	}
}

// checkEmpty verifies that nothing at all is left.
func checkEmpty(t *testing.T, ix *Index) {
	t.Helper()
	check(t, ix)
	r := ix.nodes.at(root)
	if ix.nodes.live != 0 || ix.holders.live != 0 || ix.mu.orphans != 0 || len(ix.mu.owners) != 0 || r.first.Load() != 0 || r.more.Load() != 0 {
		t.Fatalf("left: %d nodes, %d holders, %d orphans, %d owners", ix.nodes.live, ix.holders.live, ix.mu.orphans, len(ix.mu.owners))
	}
	if len(ix.mu.freeSlots) != ix.mu.slotsMade {
		t.Fatalf("%d of %d slots are free", len(ix.mu.freeSlots), ix.mu.slotsMade)
	}
}

func allNames(own *owner) (all []name) {
	for _, seg := range own.names.segments {
		for _, e := range seg {
			if e.node != root {
				all = append(all, e)
			}
		}
	}
	return all
}

func masks(ix *Index, n *node) []heldBy {
	all := []heldBy{{n.key, n.mask.Load()}}
	for hid := n.holders.Load(); hid != 0; hid = ix.holders.at(hid).next {
		h := ix.holders.at(hid)
		all = append(all, heldBy{h.key, h.mask.Load()})
	}
	return all
}
