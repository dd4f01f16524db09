package index

import (
	"slices"

	"mooring/kvstate"
)

// view is one projection applied to the owners' slots. Immutable. A look-up reads
// the last one made and makes another only if the projection or the owners changed
// since, so that it need not ask the projection about every owner.
//
// An owner's slot stands for its worker. Where several owners project to one
// worker, the first of their slots does, its face; the others are aliases.
type view struct {
	projection *kvstate.Projection
	slots      *slotTable

	faces   []uint64 // by bank: slots that are faces
	aliases []uint64 // by bank: slots that are aliases
	face    []uint16 // by slot, for faces and aliases
	worker  []kvstate.Worker
	holed   []bool   // worker and holed: by slot, for faces
	order   []uint16 // faces by worker id and rank
}

// view returns the view through p. It must be called between epochs.enter and the
// end of the look-up: a slot that is in use in it then stays its owner's.
func (ix *Index) view(p *kvstate.Projection) *view {
	slots := ix.slots.Load()
	v := ix.views.Load()
	if v == nil || v.projection != p || v.slots != slots {
		v = newView(p, slots)
		ix.views.Store(v)
	}
	return v
}

func newView(p *kvstate.Projection, slots *slotTable) *view {
	n := len(slots.owners)
	banks := (n + 63) / 64
	v := &view{
		projection: p, slots: slots,
		faces: make([]uint64, banks), aliases: make([]uint64, banks),
		face: make([]uint16, n), worker: make([]kvstate.Worker, n), holed: make([]bool, n),
	}
	faces := make(map[kvstate.Worker]uint16)
	for slot, o := range slots.owners {
		if !o.used {
			continue
		}
		w, holed, ok := p.Worker(o.key)
		if !ok {
			continue
		}
		face, taken := faces[w]
		if taken {
			v.aliases[slot/64] |= bitOf(uint16(slot))
		} else {
			face = uint16(slot)
			faces[w] = face
			v.faces[slot/64] |= bitOf(face)
			v.worker[face] = w
			v.order = append(v.order, face)
		}
		v.face[slot] = face
		v.holed[face] = v.holed[face] || holed
	}
	slices.SortFunc(v.order, func(a, b uint16) int { return compareWorkers(v.worker[a], v.worker[b]) })
	return v
}
