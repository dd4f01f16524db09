package index

import (
	"runtime"
	"slices"

	"mooring/kvstate"
)

// Clear forgets o with all that it holds in every tier. Look-ups that begin after
// it returns do not see it, nor do those that begin while it tidies up. A store
// after it makes the owner anew: end what feeds an owner before clearing it for good.
func (ix *Index) Clear(o Owner) {
	ix.mu.Lock()
	own := ix.mu.owners[o.id()]
	if own != nil {
		ix.detachLocked(own)
	}
	ix.mu.Unlock()
	if own != nil {
		ix.sweep(own)
	}
}

// eviction is why an owner has to go.
type eviction uint8

const (
	evictForBlocks eviction = iota // there are MaxBlocks
	evictForOwners                 // there are maxOwners
)

// detachOldestLocked detaches the owner whose last store is longest ago, other than
// the one to spare. It is nil if there is none.
func (ix *Index) detachOldestLocked(spare ownerID, why eviction) (oldest *owner) {
	for id, own := range ix.mu.owners {
		if id != spare && (oldest == nil || own.stored < oldest.stored) {
			oldest = own
		}
	}
	if oldest != nil {
		ix.metrics.evicted(why, oldest.names.n+len(oldest.orphan.blocks))
		ix.detachLocked(oldest)
	}
	return oldest
}

// detachLocked makes own invisible, to look-ups as well. Who called must sweep it.
func (ix *Index) detachLocked(own *owner) {
	delete(ix.mu.owners, own.id)
	ix.publishSlotLocked(own.slot, slotOwner{})
	ix.mu.pairs -= own.names.n
	ix.mu.orphans -= len(own.orphan.blocks)
	ix.mu.dying += own.names.n
	own.orphan = orphans{}
	ix.setWindowsLocked(own, 0)
	ix.unlinkEngineLocked(own)
	for _, d := range own.dependents {
		d.engine = nil
	}
	own.dependents = nil
}

// sweep takes a detached owner out of the tree, a batch at a time.
func (ix *Index) sweep(own *owner) {
	for s := range own.names.segments {
		for names := range slices.Chunk(own.names.segments[s], batch) {
			ix.sweepBatch(own, names)
			runtime.Gosched() // others who wait for the lock go first
		}
		own.names.segments[s] = nil
	}
	ix.mu.Lock()
	out := ix.retiringLocked()
	out.slots = append(out.slots, own.slot)
	done := ix.reclaimLocked()
	ix.mu.Unlock()
	// Look-ups take microseconds, so that the memory can nearly always go back now;
	// else it goes with the next update.
	for range 100 {
		if done {
			return
		}
		runtime.Gosched()
		ix.mu.Lock()
		done = ix.reclaimLocked()
		ix.mu.Unlock()
	}
}

func (ix *Index) sweepBatch(own *owner, names []name) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for i := range names {
		e := &names[i]
		if e.node == root {
			continue
		}
		for tier, count := range e.counts {
			if count > 0 {
				ix.letGoLocked(own, e.node, kvstate.Tier(tier))
			}
		}
		ix.mu.dying--
	}
	ix.reclaimLocked()
}
