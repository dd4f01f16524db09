package index

import (
	"math/bits"
	"slices"
)

// walk is the state of one look-up on its way down the tree: which tier each
// worker's match is in. A worker begins in the device tier, moves to the next tier
// at the first block that it does not hold there, and never back; after the last
// tier its match is over.
//
// Invariant: after visit, each worker that is in a tier holds the last block in it.
type walk struct {
	lane uint32
	v    *view

	active [][tiers]uint64 // by bank: faces by the tier they are in
	held   [][tiers]uint64 // by bank: faces by the tiers they hold the block in
	cuts   [][tiers]int32  // by face: where its match in each tier ended

	// The holders of the last block, and of the one being visited. Most blocks have
	// the same holders as the one before, and then there is nothing to do.
	last, next []heldBy
}

type heldBy struct {
	key  holderKey
	mask uint64
}

func (w *walk) begin(v *view) {
	banks := len(v.faces)
	if cap(w.active) < banks {
		w.active, w.held = make([][tiers]uint64, banks), make([][tiers]uint64, banks)
		w.cuts = make([][tiers]int32, banks*64)
	}
	w.active, w.held = w.active[:banks], w.held[:banks]
	for b, faces := range v.faces {
		w.active[b] = [tiers]uint64{faces}
	}
	w.v, w.last = v, w.last[:0]
}

// end cuts the matches that are still going on at depth.
func (w *walk) end(depth int) {
	for b := range w.active {
		for tier, faces := range w.active[b] {
			for ; faces != 0; faces &= faces - 1 {
				c := &w.cuts[b*64+bits.TrailingZeros64(faces)]
				for t := tier; t < tiers; t++ {
					c[t] = int32(depth)
				}
			}
		}
	}
	w.v = nil
}

// visit takes the matches to n, the block at position i, and returns whether any
// goes on.
func (w *walk) visit(ix *Index, n *node, i int32) bool {
	hid := n.holders.Load()
	first := heldBy{n.key, n.mask.Load()}
	if hid == 0 && len(w.last) == 1 && first == w.last[0] {
		return true
	}
	w.next = append(w.next[:0], first)
	for hid != 0 {
		h := ix.holders.at(hid)
		w.next = append(w.next, heldBy{h.key, h.mask.Load()})
		hid = h.next
	}
	if slices.Equal(w.next, w.last) {
		return true
	}
	w.last, w.next = w.next, w.last
	clear(w.held)
	for _, h := range w.last {
		w.fold(h)
	}
	return w.advance(i)
}

// fold adds holders to held, aliases as their faces.
func (w *walk) fold(h heldBy) {
	bank, tier := h.key.bank(), h.key.tier()
	if bank >= len(w.held) {
		return // owners that came after the view
	}
	w.held[bank][tier] |= h.mask & w.v.faces[bank]
	for aliases := h.mask & w.v.aliases[bank]; aliases != 0; aliases &= aliases - 1 {
		face := w.v.face[bank*64+bits.TrailingZeros64(aliases)]
		w.held[face/64][tier] |= bitOf(face)
	}
}

// advance moves each worker on to the first tier, from its own, that it holds the
// block at i in. It returns whether any is left.
func (w *walk) advance(i int32) bool {
	var left uint64
	for b := range w.active {
		var arriving uint64
		for tier := range w.active[b] {
			here := w.active[b][tier] | arriving
			arriving = here &^ w.held[b][tier]
			w.active[b][tier] = here &^ arriving
			left |= here &^ arriving
			for lost := arriving; lost != 0; lost &= lost - 1 {
				w.cuts[b*64+bits.TrailingZeros64(lost)][tier] = i
			}
		}
	}
	return left != 0
}
