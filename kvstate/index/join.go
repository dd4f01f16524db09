package index

import (
	"slices"

	"mooring/kvstate"
)

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
