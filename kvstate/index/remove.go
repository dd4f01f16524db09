package index

import "mooring/kvstate"

// Remove takes blocks, by external hash, away from o in tier, and returns how many
// of them o did not hold there, which is harmless.
func (ix *Index) Remove(o Owner, tier kvstate.Tier, external []uint64) (unknown int) {
	for rest := external; len(rest) > 0; {
		n := min(batch, len(rest))
		unknown += ix.removeBatch(o, tier, rest[:n])
		rest = rest[n:]
	}
	ix.metrics.unknownRemoves.Add(float64(unknown))
	return unknown
}

func (ix *Index) removeBatch(o Owner, tier kvstate.Tier, external []uint64) (unknown int) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	own := ix.mu.owners[o.id()]
	if own == nil || tier >= tiers {
		return len(external)
	}
	for _, x := range external {
		if !ix.removeLocked(own, tier, x) {
			unknown++
		}
	}
	if own.names.n+len(own.orphan.blocks) == 0 {
		ix.setWindowsLocked(own, 0)
	}
	ix.reclaimLocked()
	return unknown
}

// removeLocked removes one block and returns whether it was held.
func (ix *Index) removeLocked(own *owner, tier kvstate.Tier, external uint64) bool {
	e := own.names.find(external)
	switch {
	case e == nil:
		before := len(own.orphan.blocks)
		held := own.orphan.remove(external, tier, own.id.domain == kvstate.CacheOwnerDomain)
		ix.mu.orphans += len(own.orphan.blocks) - before
		return held
	case e.counts[tier] == 0:
		return false
	case !own.discount(e, tier):
		return true
	}
	id := e.node
	if e.counts == [tiers]uint8{} {
		own.names.remove(external)
		ix.mu.pairs--
	}
	ix.letGoLocked(own, id, tier)
	return true
}
