package index

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"mooring/kvstate"
	"mooring/kvstate/blockhash"
)

// TestBlockSizes: a learnt one gives way to another while there is nothing, one that
// is configured stays while
// who configured it is there, and 0 is none (case B86).
func TestBlockSizes(t *testing.T) {
	type step struct {
		do   string
		n    int
		ok   bool
		size int
	}
	o := testOwners[0]
	for name, steps := range map[string][]step{
		"learnt": {
			{"store", 16, true, 16}, {"clear", 0, true, 16},
			{"store", 64, true, 64}, {"store", 16, false, 64}, {"store", -16, false, 64}, {"set", 16, false, 64},
			{"clear", 0, true, 64}, {"store", 16, true, 16}, {"remove", 0, true, 16}, {"orphan", 32, true, 32}, {"store", 16, false, 32},
			{"clear", 0, true, 32}, {"store", 16, true, 16},
		},
		"configured": {
			{"set", 0, false, 0}, {"set", -16, false, 0}, {"set", 16, true, 16}, {"set", 16, true, 16}, {"set", 64, false, 16},
			{"store", 64, false, 16}, {"store", 16, true, 16}, {"clear", 0, true, 16}, {"store", 64, false, 16},
		},
		"configured later": {
			{"store", 64, true, 64}, {"set", 16, false, 64}, {"clear", 0, true, 64}, {"set", 16, true, 16}, {"store", 64, false, 16},
		},
		"confirmed": {
			{"store", 64, true, 64}, {"set", 64, true, 64}, {"clear", 0, true, 64}, {"store", 16, false, 64},
		},
		"released": {
			{"set", 16, true, 16}, {"set", 16, true, 16}, {"release", 0, true, 16}, {"set", 64, false, 16}, {"store", 64, false, 16},
			{"release", 0, true, 16}, {"release", 0, true, 16}, {"store", 64, true, 64}, {"clear", 0, true, 64}, {"set", 32, true, 32}, {"store", 64, false, 32},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ix := newIndex(10, newMetrics())
			for i, s := range steps {
				ok := true
				switch o.Cut.Size = s.n; s.do {
				case "release":
					ix.ReleaseBlockSize()
				case "set":
					ok = ix.SetBlockSize(s.n)
				case "store":
					fits := ix.SizeFor(s.n) == s.n
					if ok = ix.Store(o, kvstate.Device, 0, false, chain(1, 1)).Stored == 1; ok != fits {
						t.Errorf("step %d: stored %t, said to fit %t", i, ok, fits)
					}
				case "orphan":
					ok = ix.Store(o, kvstate.Device, 99, true, chain(1, 1)).Orphaned == 1
				case "remove":
					ix.Remove(o, kvstate.Device, externals(chain(1, 1)))
				case "clear":
					ix.Clear(o)
				}
				if ok != s.ok || ix.BlockSize() != s.size {
					t.Errorf("step %d, %s %d: %t and size %d, want %t and %d", i, s.do, s.n, ok, ix.BlockSize(), s.ok, s.size)
				}
			}
		})
	}
}

// TestBlocksOfAnotherSizeAreCounted, and make no owner.
func TestBlocksOfAnotherSizeAreCounted(t *testing.T) {
	m := newMetrics()
	ix := newIndex(10, m)
	ix.SetBlockSize(2)
	o := testOwners[0]
	o.Cut.Size = 4
	if out := ix.Store(o, kvstate.Device, 0, false, chain(1, 3)); out != (Outcome{Missized: 3}) {
		t.Errorf("%+v", out)
	}
	if n := counted(t, m.missized); n != 3 {
		t.Errorf("%v counted", n)
	}
	checkEmpty(t, ix)
}

// TestSizeChangesWithinAStore: its owner is cleared and another size learnt while it
// lets others in.
func TestSizeChangesWithinAStore(t *testing.T) {
	ix := newIndex(1000, newMetrics())
	two, four := benchOwner(2), benchOwner(4)
	two.Cut.Size, four.Cut.Size = 2, 4
	s := storing{ix: ix, who: two, rest: chain(1, 3*batch)}
	if !s.step() {
		t.Fatal("the first batch is not stored")
	}
	ix.Clear(two)
	if out := ix.Store(four, kvstate.Device, 0, false, chain(5000, 1)); out.Stored != 1 {
		t.Fatalf("another size: %+v", out)
	}
	if s.step() || s.out != (Outcome{Stored: batch, Missized: 2 * batch}) || ix.BlockSize() != 4 || ix.Len() != 1 {
		t.Errorf("%+v, %d blocks of size %d", s.out, ix.Len(), ix.BlockSize())
	}
	check(t, ix)
}

// TestWindowsAreThoseOfTheBlocks: of those that are there, not of those that were.
func TestWindowsAreThoseOfTheBlocks(t *testing.T) {
	ix := newIndex(10, newMetrics())
	if got := ix.Windows(); got != Plain {
		t.Errorf("nothing stored: %b, want plain", got)
	}
	store := func(n int, w Windows) func() {
		o := benchOwner(n)
		o.Cut.Windows = w
		return func() { ix.Store(o, kvstate.Device, 0, false, chain(uint64(10*w), 1)) }
	}
	for i, step := range []struct {
		do   func()
		want Windows
	}{
		{store(1, Eagle), Eagle},
		{store(2, Eagle), Eagle},
		{store(3, 0), Plain | Eagle},
		{func() { ix.Clear(benchOwner(1)) }, Plain | Eagle},
		{store(1, Plain), Plain | Eagle}, // one after the other is exchanged
		{func() { ix.Clear(benchOwner(2)) }, Plain},
		{store(2, Eagle), Plain | Eagle},
		{func() { ix.Remove(benchOwner(2), kvstate.Device, externals(chain(20, 1))) }, Plain},
		{store(2, Plain|Eagle), Plain | Eagle},
		{func() { ix.Clear(benchOwner(1)); ix.Clear(benchOwner(3)) }, Plain | Eagle},
		{func() { ix.Clear(benchOwner(2)) }, Plain},
	} {
		if step.do(); ix.Windows() != step.want {
			t.Errorf("after step %d: %b, want %b", i, ix.Windows(), step.want)
		}
	}
}

// TestSizesNeverMix has owners with blocks of different sizes come and go beside
// look-ups. Whenever one looks, all blocks are of the index's size; and a prompt that
// was cut by a size that is not the index's any more is at worst found nowhere.
func TestSizesNeverMix(t *testing.T) {
	tokens := make([]uint32, 8)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	cuts := map[int][]uint64{}
	for _, size := range []int{2, 4} {
		cuts[size] = blockhash.Append(nil, tokens, size, 1)
	}
	ix := newIndex(10_000, newMetrics())
	p := benchProjection(2)
	var writing, reading sync.WaitGroup
	var stop atomic.Bool
	for w := range 2 {
		writing.Go(func() {
			size := 2 + 2*(w%2)
			o := benchOwner(w)
			o.Cut.Size = size
			var blocks []kvstate.Block
			for i, local := range cuts[size] {
				blocks = append(blocks, kvstate.Block{External: uint64(i), Local: local})
			}
			rng := rand.New(rand.NewPCG(uint64(w), 3))
			for range 3000 {
				ix.Store(o, kvstate.Device, 0, false, blocks)
				checkCut(t, ix, cuts)
				if rng.IntN(2) == 0 {
					ix.Clear(benchOwner(rng.IntN(2))) // as who needs room does
				} else {
					ix.Remove(o, kvstate.Device, externals(blocks))
				}
			}
		})
	}
	reading.Go(func() {
		var m Matches
		for !stop.Load() {
			size := max(ix.BlockSize(), 2)
			ix.Match(p, cuts[size], &m)
			for _, found := range m.All() {
				if w := found.Worker; found.Blocks() > len(cuts[size]) || size != sizeOfBench(w) {
					t.Errorf("%d blocks of size %d at %s", found.Blocks(), size, w)
				}
			}
		}
	})
	writing.Wait()
	stop.Store(true)
	reading.Wait()
	for w := range 2 {
		ix.Clear(benchOwner(w))
	}
	checkEmpty(t, ix)
}

// sizeOfBench returns the size that the blocks of a worker of TestSizesNeverMix have.
func sizeOfBench(w kvstate.Worker) int {
	for n := range 2 {
		if benchWorker(n) == w {
			return 2 + 2*(n%2)
		}
	}
	return 0
}

func checkCut(t *testing.T, ix *Index, cuts map[int][]uint64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	size := ix.BlockSize()
	for _, own := range ix.mu.owners {
		for _, e := range allNames(own) {
			if cut := cuts[size]; ix.nodes.at(e.node).local != cut[min(int(e.external), len(cut)-1)] {
				t.Errorf("a block of %v is not of %d tokens", own.id, size)
				return
			}
		}
	}
}
