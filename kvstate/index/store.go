package index

import (
	"slices"

	"mooring/kvstate"
)

// Outcome counts what became of the blocks of one store. The sum of the fields
// is the number of blocks.
type Outcome struct {
	Stored   int // held in the tier now, and not before
	Repeated int // held in the tier already
	Orphaned int // kept until their parent is known
	Conflict int // not placed, nor any block after them: held elsewhere by that owner
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
	if s.own = ix.ownerLocked(s.who); s.own == nil {
		return s.evictAndUnlock(evictForOwners)
	}
	ix.mu.tick++
	s.own.stored = ix.mu.tick
	s.at, s.placed = root, true
	if s.hasParent {
		s.at, s.placed = s.own.locate(s.parent)
	}
	for range min(batch, len(s.rest)) {
		switch s.blockLocked(s.rest[0]) {
		case stepped:
			s.parent, s.hasParent, s.rest = s.rest[0].External, true, s.rest[1:]
		case conflicting:
			ix.reclaimLocked()
			ix.mu.Unlock()
			s.out.Conflict += len(s.rest)
			return false
		case full:
			return s.evictAndUnlock(evictForBlocks)
		}
	}
	ix.reclaimLocked()
	ix.mu.Unlock()
	return true
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
	full                          // there is no room for it
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
	if !s.ix.roomLocked() {
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
	before := len(q.blocks)
	if q.blocks[b.External] == nil && before < maxOrphans && !s.ix.roomLocked() {
		return full
	}
	first, ok, dropped := q.keep(b, s.parent, s.tier)
	s.ix.mu.orphans += len(q.blocks) - before
	s.orphansDropped += dropped
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

// roomLocked returns whether one more block, with a node of its own, fits.
func (ix *Index) roomLocked() bool {
	return ix.mu.pairs+ix.mu.orphans < ix.maxBlocks && ix.nodes.live-ix.mu.dying <= ix.maxBlocks
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

// settleLocked places the orphans that waited for a block that was just placed, and
// those that waited for them: the owner's own, and those of the cache owners whose
// engine it is.
func (s *storing) settleLocked(external uint64) {
	own := s.own
	if len(own.orphan.blocks) == 0 && !slices.ContainsFunc(own.dependents, (*owner).hasOrphans) {
		return
	}
	if own.orphan.blocks[external] != nil { // it waited elsewhere
		own.orphan.drop(external)
		s.ix.mu.orphans--
		s.orphansDropped++
	}
	known := s.adoptLocked(own, []uint64{external})
	for _, d := range own.dependents {
		s.adoptLocked(d, known)
	}
}

// adoptLocked places the orphans of own that waited for the known blocks, and those
// that waited for them. It returns the known blocks and all that are known now.
func (s *storing) adoptLocked(own *owner, known []uint64) []uint64 {
	q := &own.orphan
	before := len(q.blocks)
	known = slices.Clip(known) // the caller's stays as it is
	for i := 0; i < len(known) && len(q.blocks) > 0; i++ {
		at, ok := own.locate(known[i])
		for _, j := range q.take(known[i]) {
			if ok && s.ix.joinLocked(own, at, j) {
				known = append(known, j.external)
			} else {
				s.orphansDropped++
			}
		}
	}
	s.ix.mu.orphans += len(q.blocks) - before
	return known
}

// joinLocked places one orphan after the block at a node, in each tier that it was
// stored in. It is false if there is no room.
func (ix *Index) joinLocked(own *owner, at uint32, j joining) bool {
	for tier, count := range j.counts {
		if count > 0 && !ix.joinTierLocked(own, at, j, kvstate.Tier(tier)) {
			return false
		}
	}
	return true
}

func (ix *Index) joinTierLocked(own *owner, at uint32, j joining, tier kvstate.Tier) bool {
	e := own.names.find(j.external)
	if e == nil {
		b := kvstate.Block{External: j.external, Local: j.local}
		if ix.placeLocked(own, at, b, tier) == root {
			return false
		}
		own.count(own.names.find(j.external), tier, j.counts[tier]-1)
		return true
	}
	if !ix.holdLocked(own, e.node, tier) {
		return false
	}
	own.count(e, tier, j.counts[tier])
	return true
}
