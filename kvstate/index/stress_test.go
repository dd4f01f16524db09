package index

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"mooring/kvstate"
)

// stressPrompt returns the local hashes of prompt k of worker w: no other worker
// ever holds them, but for the first four blocks, which are everybody's.
func stressPrompt(w, k int) []kvstate.Block {
	blocks := make([]kvstate.Block, 20)
	for i := range blocks {
		id := uint64(w)<<32 | uint64(k)<<16 | uint64(i)
		blocks[i] = kvstate.Block{External: id, Local: id}
		if i < 4 {
			blocks[i] = kvstate.Block{External: uint64(i), Local: uint64(i)}
		}
	}
	return blocks
}

// TestLookUpsBesideUpdates has look-ups watch eight writers that store, remove and
// clear until nodes, owners' slots and tables have been used over and over, with
// room for all and without. A block is never found at a worker that never had it,
// and with room for all a block that stays is always found.
func TestLookUpsBesideUpdates(t *testing.T) {
	const writers, rounds = 8, 60
	for _, max := range []int{4000, 1000} {
		t.Run(fmt.Sprintf("max=%d", max), func(t *testing.T) {
			ix := newIndex(max, newMetrics())
			p := benchProjection(writers + 1)
			ix.Store(benchOwner(writers), kvstate.Device, 0, false, stressPrompt(writers, 0))
			var writing, reading sync.WaitGroup
			var stop atomic.Bool
			for w := range writers {
				writing.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(w), 9))
					for range rounds {
						churn(ix, w, rng)
					}
				})
			}
			for r := range 2 {
				reading.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(r), 10))
					var m Matches
					for !stop.Load() && !t.Failed() {
						w := rng.IntN(writers + 1)
						watch(t, ix, p, w, rng.IntN(16), &m)
						if w == writers && max == 4000 {
							watchSteady(t, ix, p, w, &m)
						}
					}
				})
			}
			writing.Wait()
			stop.Store(true)
			reading.Wait()
			for w := range writers + 1 {
				ix.Clear(benchOwner(w))
			}
			checkEmpty(t, ix)
		})
	}
}

// churn stores some prompts of w and removes or clears some.
func churn(ix *Index, w int, rng *rand.Rand) {
	o := benchOwner(w)
	for range 8 {
		blocks := stressPrompt(w, rng.IntN(16))
		switch rng.IntN(6) {
		case 0, 1, 2:
			ix.Store(o, kvstate.Device, 0, false, blocks)
		case 3:
			ix.Store(o, kvstate.Tier(rng.IntN(tiers)), blocks[9].External, true, blocks[10:])
		case 4:
			ix.Remove(o, kvstate.Device, externals(blocks[4+rng.IntN(16):]))
		default:
			if rng.IntN(8) == 0 {
				ix.Clear(o)
			}
		}
	}
}

func watch(t *testing.T, ix *Index, p *kvstate.Projection, w, k int, m *Matches) {
	ix.Match(p, locals(stressPrompt(w, k)), m)
	for _, found := range m.All() {
		if found.Worker != benchWorker(w) && found.Blocks() > 4 {
			t.Errorf("worker %s has %d blocks of %s", found.Worker, found.Blocks(), benchWorker(w))
		}
	}
}

func watchSteady(t *testing.T, ix *Index, p *kvstate.Projection, w int, m *Matches) {
	ix.Match(p, locals(stressPrompt(w, 0)), m)
	if found := m.Of(benchWorker(w)); found.Device != 20 {
		t.Errorf("of the blocks that stay a look-up found %+v", found)
	}
}

// TestRemovedWorkersLeaveNothing adds and removes a thousand workers, the last with
// ten thousand stores waiting, and looks at the heap (case B90).
func TestRemovedWorkersLeaveNothing(t *testing.T) {
	ix := newIndex(DefaultMaxBlocks, newMetrics())
	before := heap()
	for n := range 1000 {
		for k := range 5 {
			ix.Store(benchOwner(n), kvstate.Device, 0, false, stressPrompt(n, k))
		}
		if n >= 10 {
			ix.Clear(benchOwner(n - 10))
		}
	}
	last := benchOwner(1000)
	events := make(chan []kvstate.Block, 10_000)
	for k := range cap(events) {
		events <- stressPrompt(1000, k)
	}
	close(events)
	for blocks := range events { // the feed ends, then its worker goes
		ix.Store(last, kvstate.Device, 0, false, blocks)
	}
	full := heap()
	for n := range 1001 {
		ix.Clear(benchOwner(n))
	}
	checkEmpty(t, ix)
	after := heap()
	if grown, held := after-before, full-before; grown > held/20 {
		t.Errorf("%d bytes are left of %d", grown, held)
	}
	runtime.KeepAlive(ix)
}

// TestEvictionsBesideEachOther has all owners over the limit at once: the bound
// holds, and the books balance in the end.
func TestEvictionsBesideEachOther(t *testing.T) {
	m := newMetrics()
	ix := newIndex(3000, m)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for k := range 60 {
				ix.Store(benchOwner(w), kvstate.Device, 0, false, stressPrompt(w, k))
				if n := ix.Len(); n > 3000 {
					t.Errorf("%d blocks", n)
				}
			}
		})
	}
	wg.Wait()
	if counted(t, m.droppedBlocks[evictForBlocks]) == 0 {
		t.Error("nothing was dropped")
	}
	check(t, ix)
}

// TestNobodyIsEvictedForWhatIsBeingCleared: the nodes of an owner that is swept, a
// batch at a time, take no room from those who store meanwhile.
func TestNobodyIsEvictedForWhatIsBeingCleared(t *testing.T) {
	ix := newIndex(10, newMetrics())
	ix.Store(benchOwner(0), kvstate.Device, 0, false, chain(100, 6))
	ix.Store(benchOwner(1), kvstate.Device, 0, false, chain(200, 4))
	ix.mu.Lock()
	gone := ix.mu.owners[benchOwner(0).id()]
	ix.detachLocked(gone)
	ix.mu.Unlock()
	if out := ix.Store(benchOwner(2), kvstate.Device, 0, false, chain(300, 6)); out.Stored != 6 {
		t.Errorf("beside the clear: %+v", out)
	}
	if n := ix.Blocks(benchOwner(1)); n != 4 {
		t.Errorf("the owner that stays has %d blocks, want 4", n)
	}
	ix.sweep(gone)
	check(t, ix)
}
