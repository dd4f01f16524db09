package index

import (
	"slices"

	"mooring/kvstate"
)

// maxOwners bounds the owners of one index. Some slots more may still belong to
// owners that were cleared just now.
const (
	maxOwners = 4096
	maxSlots  = 2 * maxOwners
)

// ownerID is what makes an owner itself.
type ownerID struct {
	key    kvstate.OwnerKey
	domain kvstate.Domain
}

func (o Owner) id() ownerID { return ownerID{o.Key, o.Domain} }

// owner is what one owner holds. Guarded by Index.mu until it is detached; then it
// belongs to who detached it, but for the bits of its slot in the tree.
type owner struct {
	id      ownerID
	slot    uint16 // its bit in masks of holders; no other owner's until all are cleared
	names   names
	spill   map[spillKey]uint32 // what counts beyond 255
	twins   map[twinKey]uint32  // how many names beyond the first hold a node in a tier
	orphan  orphans
	stored  uint64  // Index.mu.tick of the last store
	windows Windows // of its blocks, see Index.setWindowsLocked; 0: none were stored

	engineKey  kvstate.OwnerKey // Owner.Engine as last given
	engine     *owner           // the owner by that key, if there is one
	dependents []*owner         // owners whose engine this is
}

type spillKey struct {
	external uint64
	tier     kvstate.Tier
}

type twinKey struct {
	node uint32
	tier kvstate.Tier
}

// slotTable says which owner has which slot. Immutable.
type slotTable struct{ owners []slotOwner }

type slotOwner struct {
	key  kvstate.OwnerKey
	used bool
}

// ownerLocked returns the owner, made if need be. It is nil if there is no room.
func (ix *Index) ownerLocked(o Owner) *owner {
	own := ix.mu.owners[o.id()]
	if own == nil {
		if len(ix.mu.owners) >= maxOwners {
			return nil
		}
		slot, ok := ix.takeSlotLocked()
		if !ok {
			return nil
		}
		own = &owner{id: o.id(), slot: slot, names: names{seed: ix.edges.seed}}
		ix.mu.owners[own.id] = own
		ix.publishSlotLocked(slot, slotOwner{own.id.key, true})
		ix.linkDependentsLocked(own)
	}
	if o.Domain == kvstate.CacheOwnerDomain && o.Engine != own.engineKey {
		ix.unlinkEngineLocked(own)
		own.engineKey = o.Engine
		ix.linkEngineLocked(own, ix.mu.owners[ownerID{o.Engine, kvstate.WorkerDomain}])
	}
	return own
}

func (ix *Index) takeSlotLocked() (slot uint16, ok bool) {
	switch {
	case len(ix.mu.freeSlots) > 0:
		slot, ix.mu.freeSlots = pop(ix.mu.freeSlots)
	case ix.mu.slotsMade < maxSlots:
		slot = uint16(ix.mu.slotsMade)
		ix.mu.slotsMade++
	default:
		return 0, false
	}
	return slot, true
}

// publishSlotLocked makes look-ups that begin from now on see so.
func (ix *Index) publishSlotLocked(slot uint16, so slotOwner) {
	owners := slices.Clone(ix.slots.Load().owners)
	if need := int(slot) + 1 - len(owners); need > 0 {
		owners = append(owners, make([]slotOwner, need)...)
	}
	owners[slot] = so
	for len(owners) > 0 && !owners[len(owners)-1].used {
		owners = owners[:len(owners)-1]
	}
	ix.slots.Store(&slotTable{owners})
}

// linkDependentsLocked links the owners that named own as their engine before it was here.
func (ix *Index) linkDependentsLocked(own *owner) {
	if own.id.domain != kvstate.WorkerDomain {
		return
	}
	for _, d := range ix.mu.owners {
		if d.id.domain == kvstate.CacheOwnerDomain && d.engineKey == own.id.key {
			ix.linkEngineLocked(d, own)
		}
	}
}

func (ix *Index) linkEngineLocked(own, engine *owner) {
	if engine != nil {
		own.engine = engine
		engine.dependents = append(engine.dependents, own)
	}
}

func (ix *Index) unlinkEngineLocked(own *owner) {
	if e := own.engine; e != nil {
		i := slices.Index(e.dependents, own)
		e.dependents = slices.Delete(e.dependents, i, i+1)
		own.engine = nil
	}
}

// locate returns the node of an external hash as the owner, or else its engine,
// knows it.
func (own *owner) locate(external uint64) (uint32, bool) {
	if e := own.names.find(external); e != nil {
		return e.node, true
	}
	if own.engine != nil {
		if e := own.engine.names.find(external); e != nil {
			return e.node, true
		}
	}
	return root, false
}

// count records n more stores of e in tier. In the cache-owner domain there is at
// most one.
func (own *owner) count(e *name, tier kvstate.Tier, n uint32) {
	if own.id.domain == kvstate.CacheOwnerDomain {
		e.counts[tier] = 1
		return
	}
	fits := min(n, 255-uint32(e.counts[tier]))
	e.counts[tier] += uint8(fits)
	if n > fits {
		if own.spill == nil {
			own.spill = make(map[spillKey]uint32)
		}
		own.spill[spillKey{e.external, tier}] += n - fits
	}
}

// discount records one remove of e in tier and returns whether it was the last. e
// must be held in tier.
func (own *owner) discount(e *name, tier kvstate.Tier) (last bool) {
	if len(own.spill) > 0 {
		key := spillKey{e.external, tier}
		switch n := own.spill[key]; n {
		case 0:
		case 1:
			delete(own.spill, key)
			return false
		default:
			own.spill[key] = n - 1
			return false
		}
	}
	e.counts[tier]--
	return e.counts[tier] == 0
}

// holdLocked makes own a holder of a node in tier, by one more of its names. It is
// false if there is no room.
func (ix *Index) holdLocked(own *owner, id uint32, tier kvstate.Tier) bool {
	ok, had := ix.setLocked(id, own.slot, tier)
	if had {
		if own.twins == nil {
			own.twins = make(map[twinKey]uint32)
		}
		own.twins[twinKey{id, tier}]++
	}
	return ok
}

// letGoLocked ends what holdLocked began, and takes the node out if it is bare.
func (ix *Index) letGoLocked(own *owner, id uint32, tier kvstate.Tier) {
	if len(own.twins) > 0 {
		key := twinKey{id, tier}
		switch n := own.twins[key]; n {
		case 0:
		case 1:
			delete(own.twins, key)
			return
		default:
			own.twins[key] = n - 1
			return
		}
	}
	ix.unsetLocked(id, own.slot, tier)
	ix.pruneLocked(id)
}
