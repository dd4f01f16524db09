package index

import (
	"sync/atomic"

	"mooring/kvstate"
)

// root is the id of the node before the first block.
const root uint32 = 0

// node is a block after all blocks before it. local, parent and key do not change
// between the node's publication and its return to the arena.
//
// Invariant: a node other than the root has a holder or a child. A node that an
// owner's names lead to has that owner's bit set in at least one tier.
type node struct {
	local   uint64
	mask    atomic.Uint64 // holders under key
	first   atomic.Uint32 // a child, 0 for none
	more    atomic.Uint32 // how many children are in Index.edges
	holders atomic.Uint32 // list of further holders, 0 for none
	parent  uint32
	key     holderKey
}

// holderKey says what a mask of holders stands for: 64 owners' slots, in one tier.
type holderKey uint32

func keyOf(slot uint16, tier kvstate.Tier) holderKey { return holderKey(slot/64)<<2 | holderKey(tier) }

func (k holderKey) bank() int  { return int(k >> 2) }
func (k holderKey) tier() int  { return int(k & 3) }
func bitOf(slot uint16) uint64 { return 1 << (slot % 64) }

// holders is a further mask of a node. key and next do not change while it is
// published, and it stays with its node until that is taken out, even when empty.
type holders struct {
	mask atomic.Uint64
	key  holderKey
	next uint32
}

// child finds the child of n, which has the given id, by local hash. Any goroutine.
func (ix *Index) child(n *node, id uint32, local uint64) (uint32, *node) {
	if c := n.first.Load(); c != 0 {
		if cn := ix.nodes.at(c); cn.local == local {
			return c, cn
		}
	}
	if n.more.Load() == 0 {
		return 0, nil
	}
	return ix.edges.find(&ix.nodes, id, local)
}

// growLocked makes a child of parent with one holder; the child must not exist.
// It is 0 if there is no room.
func (ix *Index) growLocked(parent uint32, local uint64, slot uint16, tier kvstate.Tier) uint32 {
	id, ok := ix.nodes.take()
	if !ok {
		return 0
	}
	n := ix.nodes.at(id)
	n.local, n.parent, n.key = local, parent, keyOf(slot, tier)
	n.holders.Store(0)
	n.mask.Store(bitOf(slot))
	p := ix.nodes.at(parent)
	if p.first.Load() == 0 {
		p.first.Store(id)
		return id
	}
	ix.edges.insert(parent, local, id)
	p.more.Add(1)
	return id
}

// setLocked sets the bit of slot in tier. ok is false if there is no room; had says
// that it was set already.
func (ix *Index) setLocked(id uint32, slot uint16, tier kvstate.Tier) (ok, had bool) {
	n, key, bit := ix.nodes.at(id), keyOf(slot, tier), bitOf(slot)
	if mask := ix.maskLocked(n, key); mask != nil {
		had = mask.Load()&bit != 0
		mask.Store(mask.Load() | bit) // there is no other writer
		return true, had
	}
	hid, ok := ix.holders.take()
	if !ok {
		return false, false
	}
	h := ix.holders.at(hid)
	h.key, h.next = key, n.holders.Load()
	h.mask.Store(bit)
	n.holders.Store(hid)
	return true, false
}

// unsetLocked clears the bit of slot in tier, which must be set.
func (ix *Index) unsetLocked(id uint32, slot uint16, tier kvstate.Tier) {
	mask := ix.maskLocked(ix.nodes.at(id), keyOf(slot, tier))
	mask.Store(mask.Load() &^ bitOf(slot))
}

// maskLocked returns the mask of n for key, nil if it has none.
func (ix *Index) maskLocked(n *node, key holderKey) *atomic.Uint64 {
	if n.key == key {
		return &n.mask
	}
	for hid := n.holders.Load(); hid != 0; {
		h := ix.holders.at(hid)
		if h.key == key {
			return &h.mask
		}
		hid = h.next
	}
	return nil
}

// pruneLocked takes the node out if it has neither holder nor child, and then its
// ancestors likewise.
func (ix *Index) pruneLocked(id uint32) {
	for id != root && ix.bareLocked(id) {
		n := ix.nodes.at(id)
		p := ix.nodes.at(n.parent)
		if p.first.Load() == id {
			p.first.Store(0)
		} else {
			ix.edges.remove(n.parent, n.local, id)
			p.more.Add(^uint32(0))
		}
		out := ix.retiringLocked()
		for hid := n.holders.Load(); hid != 0; hid = ix.holders.at(hid).next {
			out.holders = append(out.holders, hid)
		}
		out.nodes = append(out.nodes, id)
		id = n.parent
	}
}

func (ix *Index) bareLocked(id uint32) bool {
	n := ix.nodes.at(id)
	if n.mask.Load() != 0 || n.first.Load() != 0 || n.more.Load() != 0 {
		return false
	}
	for hid := n.holders.Load(); hid != 0; {
		h := ix.holders.at(hid)
		if h.mask.Load() != 0 {
			return false
		}
		hid = h.next
	}
	return true
}
