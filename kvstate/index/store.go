package index

import "mooring/kvstate"

// Outcome counts what became of the blocks of one store. The sum of the fields
// is the number of blocks.
type Outcome struct {
	Stored   int // held in the tier now, and not before
	Repeated int // held in the tier already
	Orphaned int // kept until their parent is known
	Conflict int // not placed, nor any block after them: held elsewhere by that owner
	Missized int // their size is not the index's
	Refused  int // there was no room, the tier is none, or the partition was dropped
}

// batch is how many blocks are worked on before other updates get their turn: some
// tens of microseconds.
const batch = 128

// Store records that o holds blocks in tier. The first block follows the one with
// the external hash parent, or begins a prompt if hasParent is false; each further
// one follows the one before it. blocks is not kept.
func (ix *Index) Store(o Owner, tier kvstate.Tier, parent uint64, hasParent bool, blocks []kvstate.Block) Outcome {
	s := storing{ix: ix, who: o, tier: tier, parent: parent, hasParent: hasParent, rest: blocks}
	for len(s.rest) > 0 {
		if !s.step() {
			break
		}
	}
	ix.metrics.stored(&s.out, s.orphansDropped)
	return s.out
}

// storing is one store under way.
type storing struct {
	ix   *Index
	who  Owner
	tier kvstate.Tier
	out  Outcome

	// What is left: rest, whose first block follows parent.
	rest      []kvstate.Block
	parent    uint64
	hasParent bool

	// Owned by step while it holds the lock.
	own            *owner
	at             uint32 // the node of parent, if placed
	placed         bool
	orphansDropped int
}

// step stores a batch of what is left, or makes room for it. It is false if the
// rest is not to be stored.
func (s *storing) step() bool {
	ix := s.ix
	ix.mu.Lock()
	if s.tier >= tiers || ix.mu.closed {
		ix.mu.Unlock()
		return s.refuse()
	}
	if size := s.who.Cut.Size; size != 0 && !ix.takeSizeLocked(size) {
		ix.mu.Unlock()
		s.out.Missized += len(s.rest)
		return false
	}
	if s.own = ix.ownerLocked(s.who); s.own == nil {
		return s.evictAndUnlock(evictForOwners)
	}
	ix.setWindowsLocked(s.own, s.own.windows|s.who.Cut.windows())
	ix.mu.tick++
	s.own.stored = ix.mu.tick
	s.at, s.placed = root, true
	if s.hasParent {
		s.at, s.placed = s.own.locate(s.parent)
	}
	for range min(batch, len(s.rest)) {
		if result := s.blockLocked(s.rest[0]); result != stepped {
			return s.endAndUnlock(result)
		}
		s.parent, s.hasParent, s.rest = s.rest[0].External, true, s.rest[1:]
	}
	ix.reclaimLocked()
	ix.mu.Unlock()
	return true
}

// endAndUnlock ends a batch before its time. It is false if that ends the store.
func (s *storing) endAndUnlock(why stepResult) bool {
	if why == full {
		return s.evictAndUnlock(evictForBlocks)
	}
	s.ix.reclaimLocked()
	s.ix.mu.Unlock()
	if why == crowded {
		return s.refuse()
	}
	s.out.Conflict += len(s.rest)
	return false
}

func (s *storing) refuse() bool {
	s.out.Refused += len(s.rest)
	return false
}

func (s *storing) evictAndUnlock(why eviction) bool {
	victim := s.ix.detachOldestLocked(s.who.id(), why)
	s.ix.mu.Unlock()
	if victim == nil {
		return s.refuse()
	}
	s.ix.sweep(victim)
	return true
}

// stepResult is what became of one block.
type stepResult uint8

const (
	stepped     stepResult = iota // it is held, or an orphan
	conflicting                   // the chain ends before it
	full                          // there is no room unless another owner goes
	crowded                       // there is no room, and no owner goes for an orphan
)

// blockLocked stores one block, which follows s.at if s.placed.
func (s *storing) blockLocked(b kvstate.Block) stepResult {
	e := s.own.names.find(b.External)
	switch {
	case e != nil:
		return s.againLocked(e, b)
	case !s.placed:
		return s.orphanLocked(b)
	}
	if !s.makeRoomLocked() {
		return full
	}
	id := s.ix.placeLocked(s.own, s.at, b, s.tier)
	if id == root {
		return full
	}
	s.at = id
	s.out.Stored++
	s.settleLocked(b.External)
	return stepped
}

// againLocked stores a block that has its place. Where the place of its parent is
// not known, its tokens must do.
func (s *storing) againLocked(e *name, b kvstate.Block) stepResult {
	n := s.ix.nodes.at(e.node)
	switch {
	case n.local != b.Local, s.placed && n.parent != s.at:
		return conflicting
	case e.counts[s.tier] > 0:
		s.out.Repeated++
	case !s.ix.holdLocked(s.own, e.node, s.tier):
		return full
	default:
		s.out.Stored++
	}
	s.own.count(e, s.tier, 1)
	s.at, s.placed = e.node, true
	return stepped
}

// orphanLocked keeps a block until s.parent is stored.
func (s *storing) orphanLocked(b kvstate.Block) stepResult {
	q := &s.own.orphan
	if q.blocks[b.External] == nil && (!s.makeRoomLocked() || len(q.blocks) >= maxOrphans && !s.dropOrphanLocked()) {
		return crowded
	}
	before := len(q.blocks)
	first, ok := q.keep(b, s.parent, s.tier)
	s.ix.mu.orphans += len(q.blocks) - before
	switch {
	case !ok:
		return conflicting
	case first:
		s.out.Orphaned++
	default:
		s.out.Repeated++
	}
	s.at, s.placed = s.own.locate(b.External) // the engine may know its place all the same
	return stepped
}

// makeRoomLocked returns whether one more block fits, if need be for orphans of the
// same owner.
func (s *storing) makeRoomLocked() bool {
	for !s.ix.roomLocked() {
		if !s.dropOrphanLocked() {
			return false
		}
	}
	return true
}

// dropOrphanLocked drops the owner's oldest orphan, if it has any.
func (s *storing) dropOrphanLocked() bool {
	if !s.own.orphan.dropOldest() {
		return false
	}
	s.ix.mu.orphans--
	s.orphansDropped++
	return true
}

// roomLocked returns whether one more block, with a node of its own, fits. Nodes
// that only wait to be given back do not count.
func (ix *Index) roomLocked() bool {
	out := ix.mu.dying + len(ix.mu.limbo[0].nodes) + len(ix.mu.limbo[1].nodes)
	return ix.mu.pairs+ix.mu.orphans < ix.maxBlocks && ix.nodes.live-out <= ix.maxBlocks
}

// placeLocked gives own a block that it has no name for, as a child of parent. It
// returns the block's node, root if there is no room.
func (ix *Index) placeLocked(own *owner, parent uint32, b kvstate.Block, tier kvstate.Tier) uint32 {
	id, n := ix.child(ix.nodes.at(parent), parent, b.Local)
	if n == nil {
		id = ix.growLocked(parent, b.Local, own.slot, tier)
	} else if !ix.holdLocked(own, id, tier) {
		id = root
	}
	if id == root {
		return root
	}
	e := name{external: b.External, node: id}
	e.counts[tier] = 1
	own.names.insert(e)
	ix.mu.pairs++
	return id
}
