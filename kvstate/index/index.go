package index

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"mooring/kvstate"
)

// Owner is who holds blocks.
type Owner struct {
	Key    kvstate.OwnerKey
	Domain kvstate.Domain
	// Engine is, for a cache owner, the key of the worker-domain owner whose engine
	// made the external hashes: a parent that the cache owner does not hold itself
	// is looked for there. It is no part of the owner's identity. Zero: nowhere.
	Engine kvstate.OwnerKey
	// Cut is how the blocks of a store were cut. It is no part of the owner's
	// identity either.
	Cut Cut
}

// Index is the blocks of one partition. Make one by Set.Open.
type Index struct {
	maxBlocks int
	metrics   *metrics

	// Read by look-ups without a lock, changed under mu.
	nodes     arena[node]
	holders   arena[holders]
	edges     edges
	epochs    epochs
	slots     atomic.Pointer[slotTable]
	views     atomic.Pointer[view] // the last projection looked through
	lane      atomic.Uint32        // the last one that a Matches got
	blockSize atomic.Int64
	windows   atomic.Uint32 // a set of Windows: those of all owners

	mu struct {
		sync.Mutex
		owners     map[ownerID]*owner
		freeSlots  []uint16
		slotsMade  int
		limbo      [2]limbo            // by parity of the epoch they were taken out in
		pairs      int                 // names of all owners
		orphans    int                 // of all owners
		dying      int                 // names of detached owners whose nodes are not let go yet
		tick       uint64              // stores so far
		closed     bool                // the partition was dropped
		sizeClaims int                 // who configured the block size
		windowed   [allWindows + 1]int // owners with blocks, by the set of their kinds
	}
}

func newIndex(maxBlocks int, m *metrics) *Index {
	ix := &Index{
		maxBlocks: maxBlocks,
		metrics:   m,
		// A detached owner's nodes stay until they are let go, beside those of who
		// comes after it.
		nodes:   newArena[node](2 * maxBlocks),
		holders: newArena[holders](2 * tiers * maxBlocks),
	}
	ix.edges.seed = rand.Uint64() // against chosen hashes; no decision depends on it
	ix.slots.Store(new(slotTable))
	ix.mu.owners = make(map[ownerID]*owner)
	return ix
}

// Blocks returns the number of blocks that o holds, in whatever tier; a block in
// two tiers counts once, orphans do not.
func (ix *Index) Blocks(o Owner) int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if own := ix.mu.owners[o.id()]; own != nil {
		return own.names.n
	}
	return 0
}

// Len returns the number of (block, owner) pairs, without orphans.
func (ix *Index) Len() int {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.mu.pairs
}
