package index

import (
	"slices"

	"mooring/kvstate"
)

// maxOrphans bounds the blocks of one owner whose place is not known. They count
// towards MaxBlocks as well.
const maxOrphans = 4096

// orphans are blocks that wait for their parent to be stored, by external hash.
// Guarded by Index.mu.
type orphans struct {
	blocks  map[uint64]*orphan
	waiting map[uint64][]uint64 // by parent: the blocks that follow it
	order   []orphanAge         // oldest first, with those that are gone by now
	ages    uint64
}

type orphan struct {
	parent, local uint64
	counts        [tiers]uint32
	age           uint64
}

type orphanAge struct{ external, age uint64 }

func (own *owner) hasOrphans() bool { return len(own.orphan.blocks) > 0 }

// keep records one store of an orphan in tier, and whether it was the first there.
// ok is false if it waits already elsewhere or with other tokens.
func (q *orphans) keep(b kvstate.Block, parent uint64, tier kvstate.Tier) (first, ok bool) {
	if o := q.blocks[b.External]; o != nil {
		if o.parent != parent || o.local != b.Local {
			return false, false
		}
		o.counts[tier]++
		return o.counts[tier] == 1, true
	}
	if q.blocks == nil {
		q.blocks, q.waiting = make(map[uint64]*orphan), make(map[uint64][]uint64)
	}
	q.ages++
	o := &orphan{parent: parent, local: b.Local, age: q.ages}
	o.counts[tier] = 1
	q.blocks[b.External] = o
	q.waiting[parent] = append(q.waiting[parent], b.External)
	q.order = append(q.order, orphanAge{b.External, q.ages})
	q.compact()
	return true, true
}

// compact takes what is gone out of order, once that is more than half.
func (q *orphans) compact() {
	if len(q.order) > 2*len(q.blocks)+16 {
		q.order = slices.DeleteFunc(q.order, func(a orphanAge) bool { return !q.waits(a) })
	}
}

func (q *orphans) waits(a orphanAge) bool {
	o := q.blocks[a.external]
	return o != nil && o.age == a.age
}

// dropOldest forgets the oldest orphan; it is false if there is none.
func (q *orphans) dropOldest() bool {
	for len(q.order) > 0 {
		a := q.order[0]
		q.order = q.order[1:]
		if q.waits(a) {
			q.drop(a.external)
			return true
		}
	}
	return false
}

// drop forgets an orphan; what waits for it goes on waiting.
func (q *orphans) drop(external uint64) {
	parent := q.blocks[external].parent
	delete(q.blocks, external)
	list := q.waiting[parent]
	i := slices.Index(list, external)
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(q.waiting, parent)
	} else {
		q.waiting[parent] = list
	}
	if len(q.blocks) == 0 {
		*q = orphans{ages: q.ages}
	}
}

// remove records one remove of an orphan in tier and returns whether it was held
// there. all says that one remove ends it, however often it was stored.
func (q *orphans) remove(external uint64, tier kvstate.Tier, all bool) bool {
	o := q.blocks[external]
	if o == nil || o.counts[tier] == 0 {
		return false
	}
	if o.counts[tier]--; all {
		o.counts[tier] = 0
	}
	if o.counts == [tiers]uint32{} {
		q.drop(external)
	}
	return true
}

// take hands over all that waits for the block with the given external hash.
func (q *orphans) take(parent uint64) (found []joining) {
	for _, external := range slices.Clone(q.waiting[parent]) {
		o := q.blocks[external]
		found = append(found, joining{external, *o})
		q.drop(external)
	}
	return found
}

// joining is an orphan whose parent is known now.
type joining struct {
	external uint64
	orphan
}
