package index

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"mooring/kvstate"
)

// chain returns n blocks with the external hashes first, first+1, ...; the local
// hashes are 1,000 more.
func chain(first uint64, n int) []kvstate.Block {
	blocks := make([]kvstate.Block, n)
	for i := range blocks {
		blocks[i] = kvstate.Block{External: first + uint64(i), Local: first + uint64(i) + 1000}
	}
	return blocks
}

func externals(blocks []kvstate.Block) (all []uint64) {
	for _, b := range blocks {
		all = append(all, b.External)
	}
	return all
}

func counted(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// TestUnknownTierIsRefused: no such tier is stored or removed (case B80).
func TestUnknownTierIsRefused(t *testing.T) {
	ix := newIndex(10, newMetrics())
	if out := ix.Store(testOwners[0], kvstate.External+1, 0, false, chain(1, 2)); out != (Outcome{Refused: 2}) {
		t.Errorf("Store: %+v", out)
	}
	ix.Store(testOwners[0], kvstate.Device, 0, false, chain(1, 2))
	if unknown := ix.Remove(testOwners[0], kvstate.External+1, []uint64{1}); unknown != 1 || ix.Len() != 2 {
		t.Errorf("Remove: %d unknown, %d left", unknown, ix.Len())
	}
}

// TestCountsBeyondAByte: a block stored a thousand times goes with the thousandth
// remove, as an orphan and in place.
func TestCountsBeyondAByte(t *testing.T) {
	ix, o := newIndex(10, newMetrics()), testOwners[0]
	for range 600 {
		ix.Store(o, kvstate.Device, 1, true, chain(2, 1))
	}
	ix.Store(o, kvstate.Device, 0, false, chain(1, 1))
	for range 400 {
		ix.Store(o, kvstate.Device, 1, true, chain(2, 1))
	}
	for i := range 1000 {
		if ix.Blocks(o) != 2 {
			t.Fatalf("gone after %d removes", i)
		}
		if unknown := ix.Remove(o, kvstate.Device, []uint64{2}); unknown != 0 {
			t.Fatalf("remove %d was unknown", i)
		}
	}
	if ix.Blocks(o) != 1 || ix.Remove(o, kvstate.Device, []uint64{2}) != 1 {
		t.Error("it is there after as many removes as stores")
	}
	check(t, ix)
}

// TestMaxBlocksHasLimits: no setting overflows the ids.
func TestMaxBlocksHasLimits(t *testing.T) {
	for set, want := range map[int]int{0: DefaultMaxBlocks, -1: DefaultMaxBlocks, 5: 5, math.MaxInt: 1 << 28} {
		if got := NewSet(Config{MaxBlocks: set}).maxBlocks; got != want {
			t.Errorf("MaxBlocks %d counts as %d, want %d", set, got, want)
		}
	}
}

// TestOrphansAreBounded: of too many the oldest go, and are counted (case B79).
func TestOrphansAreBounded(t *testing.T) {
	m := newMetrics()
	ix, o := newIndex(1_000_000, m), testOwners[0]
	for i := range uint64(maxOrphans + 100) {
		ix.Store(o, kvstate.Device, 1_000_000+i, true, chain(10*i, 2))
	}
	if n := ix.mu.orphans; n != maxOrphans {
		t.Errorf("%d orphans, want %d", n, maxOrphans)
	}
	if n := counted(t, m.droppedOrphans); n != maxOrphans+200 {
		t.Errorf("%v dropped, want %d", n, maxOrphans+200)
	}
	last := uint64(maxOrphans + 99)
	ix.Store(o, kvstate.Device, 0, false, chain(1_000_000+last, 1))
	if n := ix.Blocks(o); n != 3 {
		t.Errorf("%d blocks once the last one's parent is known, want 3", n)
	}
	check(t, ix)
	ix.Clear(o)
	checkEmpty(t, ix)
}

// TestOwnersAreBounded: one more than the greatest number costs the oldest its data.
func TestOwnersAreBounded(t *testing.T) {
	m := newMetrics()
	ix := newIndex(1_000_000, m)
	for n := range maxOwners + 1 {
		if out := ix.Store(benchOwner(n), kvstate.Device, 0, false, chain(1, 2)); out.Stored != 2 {
			t.Fatalf("owner %d: %+v", n, out)
		}
	}
	if ix.Blocks(benchOwner(0)) != 0 || ix.Blocks(benchOwner(1)) != 2 || ix.Len() != 2*maxOwners {
		t.Errorf("the first has %d, the second %d, all %d", ix.Blocks(benchOwner(0)), ix.Blocks(benchOwner(1)), ix.Len())
	}
	if n := counted(t, m.droppedBlocks[evictForOwners]); n != 2 {
		t.Errorf("%v blocks dropped, want 2", n)
	}
}

// TestNodesWithoutHoldersAreBounded: blocks that only lead to others do not pile up
// when all before the last of each chain are removed.
func TestNodesWithoutHoldersAreBounded(t *testing.T) {
	ix, o := newIndex(1000, newMetrics()), testOwners[0]
	refused := 0
	for i := range uint64(100) {
		blocks := chain(1000*i, 100)
		refused += ix.Store(o, kvstate.Device, 0, false, blocks).Refused
		ix.Remove(o, kvstate.Device, externals(blocks[:99]))
	}
	if ix.nodes.live > 1001 || refused == 0 {
		t.Errorf("%d nodes for %d blocks, %d refused", ix.nodes.live, ix.Len(), refused)
	}
	check(t, ix)
}

// TestManyOwnersSameAsNaive has more owners than a mask has bits, and cache owners
// in other masks than their workers.
func TestManyOwnersSameAsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	p := newPair(t, unlimited)
	const workers = 70
	projection := benchProjection(workers)
	blocks := chain(1, 24)
	store := func(o Owner, tier kvstate.Tier) {
		from := rng.IntN(8)
		to := from + rng.IntN(len(blocks)-from)
		for _, part := range [][]kvstate.Block{blocks[:from], blocks[from:to]} {
			parent, hasParent := uint64(0), false
			if len(part) > 0 && part[0] != blocks[0] {
				parent, hasParent = part[0].External-1, true
			}
			if got, want := p.ix.Store(o, tier, parent, hasParent, part), p.nv.store(o, tier, parent, hasParent, part); got != want {
				t.Fatalf("Store: %+v, want %+v", got, want)
			}
			tier = (tier + kvstate.Tier(rng.IntN(2))) % tiers
		}
	}
	for n := range workers {
		store(benchOwner(n), kvstate.Device)
	}
	for n := range workers {
		id := kvstate.CacheOwnerID{Pool: kvstate.PoolID{DC: kvstate.DCID(n)}}
		store(Owner{Key: id.Key(), Domain: kvstate.CacheOwnerDomain}, kvstate.HostPinned)
	}
	check(t, p.ix)
	for length := range len(blocks) + 1 {
		local := locals(blocks[:length])
		p.ix.Match(projection, local, &p.m)
		if want := p.nv.match(projection, local); !slices.Equal(p.m.All(), want) {
			t.Fatalf("Match of %d blocks\n got %+v\nwant %+v", length, p.m.All(), want)
		}
	}
	if m := p.m.Of(benchWorker(7)); m.Worker != benchWorker(7) || m.Blocks() == 0 {
		t.Errorf("Of(7) = %+v", m)
	}
	if m := p.m.Of(benchWorker(workers)); m != (Match{Worker: benchWorker(workers)}) {
		t.Errorf("Of(none) = %+v", m)
	}
}

// TestClearsAreCheapAndTheirOwnersAlone: ten thousand clears of one worker leave the
// other as it is (case B76).
func TestClearsAreCheapAndTheirOwnersAlone(t *testing.T) {
	ix := newIndex(1000, newMetrics())
	for n := range 2 {
		ix.Store(benchOwner(n), kvstate.Device, 0, false, chain(1, 100))
	}
	for range 10_000 {
		ix.Clear(benchOwner(0))
	}
	if n := testing.AllocsPerRun(100, func() { ix.Clear(benchOwner(0)) }); n != 0 {
		t.Errorf("a clear of nothing allocates %v times", n)
	}
	if ix.Blocks(benchOwner(0)) != 0 || ix.Blocks(benchOwner(1)) != 100 {
		t.Errorf("%d and %d blocks, want 0 and 100", ix.Blocks(benchOwner(0)), ix.Blocks(benchOwner(1)))
	}
	check(t, ix)
}

// TestMatchDoesNotAllocate once it has what it needs.
func TestMatchDoesNotAllocate(t *testing.T) {
	ix := newIndex(1000, newMetrics())
	for n := range 100 {
		ix.Store(benchOwner(n), kvstate.Device, 0, false, chain(1, 1+n%5))
	}
	p, local := benchProjection(100), locals(chain(1, 10))
	var m Matches
	if n := testing.AllocsPerRun(100, func() { ix.Match(p, local, &m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len(m.All()) != 100 {
		t.Errorf("%d matches", len(m.All()))
	}
}
