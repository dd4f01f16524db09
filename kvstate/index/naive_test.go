package index

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mooring/kvstate"
)

// naive is the index written a second time, as slowly and plainly as possible: a
// place in the tree is the text of the local hashes that lead to it, and everything
// is looked for by going through all there is.
type naive struct {
	max    int
	owners map[ownerID]*naiveOwner
	tick   int
}

type naiveOwner struct {
	engine kvstate.OwnerKey
	stored int
	placed map[uint64]*naiveBlock
	orphan map[uint64]*naiveBlock // place is "" for these
}

type naiveBlock struct {
	place  string // "/10/11"
	parent uint64 // of an orphan
	age    int    // of an orphan: tick of its first store
	local  uint64
	counts [tiers]int
}

func newNaive(max int) *naive { return &naive{max: max, owners: map[ownerID]*naiveOwner{}} }

func (x *naive) store(o Owner, tier kvstate.Tier, parent uint64, hasParent bool, blocks []kvstate.Block) (out Outcome) {
	for len(blocks) > 0 {
		own := x.owner(o)
		x.tick++
		own.stored = x.tick
		place, known := "", true
		if hasParent {
			place, known = x.locate(o, parent)
		}
		switch x.storeOne(o, own, tier, parent, place, known, blocks[0], &out) {
		case conflicting:
			out.Conflict += len(blocks)
			return out
		case crowded:
			out.Refused += len(blocks)
			return out
		case full:
			if !x.evict(o) {
				out.Refused += len(blocks)
				return out
			}
			continue
		}
		parent, hasParent, blocks = blocks[0].External, true, blocks[1:]
	}
	return out
}

func (x *naive) storeOne(o Owner, own *naiveOwner, tier kvstate.Tier, parent uint64, place string, known bool, b kvstate.Block, out *Outcome) stepResult {
	at := fmt.Sprintf("%s/%d", place, b.Local)
	held, waits := own.placed[b.External], own.orphan[b.External]
	switch {
	case held != nil:
		if held.local != b.Local || known && held.place != at {
			return conflicting
		}
	case waits != nil && !known:
		if waits.local != b.Local || waits.parent != parent {
			return conflicting
		}
		held = waits
	case !x.makeRoom(own) && known:
		return full
	case !x.room():
		return crowded
	case known:
		held = &naiveBlock{place: at, local: b.Local}
		own.placed[b.External] = held
		delete(own.orphan, b.External)
	default:
		held = &naiveBlock{parent: parent, local: b.Local, age: x.tick}
		own.orphan[b.External] = held
	}
	switch held.counts[tier]++; {
	case held.counts[tier] > 1:
		out.Repeated++
	case held.place == "":
		out.Orphaned++
	default:
		out.Stored++
	}
	if o.Domain == kvstate.CacheOwnerDomain && held.place != "" {
		held.counts[tier] = 1
	}
	if known {
		x.joinAll(o, b.External)
	}
	return stepped
}

// joinAll places what waited for a block of o: o's own orphans first, then those of
// the cache owners whose engine o is.
func (x *naive) joinAll(o Owner, external uint64) {
	known := x.join(o.id(), []uint64{external})
	for id, own := range x.owners {
		if o.Domain == kvstate.WorkerDomain && id.domain == kvstate.CacheOwnerDomain && own.engine == o.Key {
			x.join(id, slices.Clone(known))
		}
	}
}

// join places the orphans of one owner that wait for known blocks, oldest first.
func (x *naive) join(id ownerID, known []uint64) []uint64 {
	own := x.owners[id]
	for i := 0; i < len(known); i++ {
		var waiting []uint64
		for external, b := range own.orphan {
			if b.parent == known[i] {
				waiting = append(waiting, external)
			}
		}
		slices.SortFunc(waiting, func(a, b uint64) int { return own.orphan[a].age - own.orphan[b].age })
		place, _ := x.locate(Owner{Key: id.key, Domain: id.domain}, known[i])
		for _, external := range waiting {
			b := own.orphan[external]
			for tier := range b.counts {
				if id.domain == kvstate.CacheOwnerDomain {
					b.counts[tier] = min(b.counts[tier], 1)
				}
			}
			b.place = fmt.Sprintf("%s/%d", place, b.local)
			own.placed[external] = b
			delete(own.orphan, external)
			known = append(known, external)
		}
	}
	return known
}

func (x *naive) owner(o Owner) *naiveOwner {
	own := x.owners[o.id()]
	if own == nil {
		own = &naiveOwner{placed: map[uint64]*naiveBlock{}, orphan: map[uint64]*naiveBlock{}}
		x.owners[o.id()] = own
	}
	if o.Domain == kvstate.CacheOwnerDomain {
		own.engine = o.Engine
	}
	return own
}

func (x *naive) locate(o Owner, external uint64) (string, bool) {
	own := x.owners[o.id()]
	if b := own.placed[external]; b != nil {
		return b.place, true
	}
	if o.Domain == kvstate.CacheOwnerDomain {
		if engine := x.owners[ownerID{own.engine, kvstate.WorkerDomain}]; engine != nil && engine.placed[external] != nil {
			return engine.placed[external].place, true
		}
	}
	return "", false
}

func (x *naive) makeRoom(own *naiveOwner) bool {
	for !x.room() && len(own.orphan) > 0 {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(own.orphan)), func(a, b uint64) int { return own.orphan[a].age - own.orphan[b].age })
		delete(own.orphan, oldest)
	}
	return x.room()
}

// unlimited is a max that is not worth counting up to.
const unlimited = 1 << 20

func (x *naive) room() bool {
	if x.max == unlimited {
		return true
	}
	n := 0
	for _, own := range x.owners {
		n += len(own.placed) + len(own.orphan)
	}
	return n < x.max && len(x.places()) <= x.max
}

// places returns every place that is held, and those on the way.
func (x *naive) places() map[string]bool {
	all := map[string]bool{}
	for _, own := range x.owners {
		for _, b := range own.placed {
			for p := b.place; p != ""; p = p[:strings.LastIndex(p, "/")] {
				all[p] = true
			}
		}
	}
	return all
}

func (x *naive) evict(spare Owner) bool {
	var others []ownerID
	for id := range x.owners {
		if id != spare.id() {
			others = append(others, id)
		}
	}
	if len(others) == 0 {
		return false
	}
	delete(x.owners, slices.MinFunc(others, func(a, b ownerID) int { return cmp.Compare(x.owners[a].stored, x.owners[b].stored) }))
	return true
}

func (x *naive) remove(o Owner, tier kvstate.Tier, external []uint64) (unknown int) {
	for _, e := range external {
		own := x.owners[o.id()]
		if own == nil {
			unknown++
			continue
		}
		table := own.placed
		if table[e] == nil {
			table = own.orphan
		}
		b := table[e]
		if b == nil || b.counts[tier] == 0 {
			unknown++
			continue
		}
		if b.counts[tier]--; o.Domain == kvstate.CacheOwnerDomain {
			b.counts[tier] = 0
		}
		if b.counts == [tiers]int{} {
			delete(table, e)
		}
	}
	return unknown
}

func (x *naive) clear(o Owner) { delete(x.owners, o.id()) }

func (x *naive) match(p *kvstate.Projection, local []uint64) []Match {
	held, holes := map[kvstate.Worker]map[string]bool{}, map[kvstate.Worker]bool{}
	for id, own := range x.owners {
		w, holed, ok := p.Worker(id.key)
		if !ok {
			continue
		}
		if held[w] == nil {
			held[w] = map[string]bool{}
		}
		holes[w] = holes[w] || holed
		for _, b := range own.placed {
			for tier, n := range b.counts {
				held[w][fmt.Sprint(tier, b.place)] = held[w][fmt.Sprint(tier, b.place)] || n > 0
			}
		}
	}
	var found []Match
	for _, w := range slices.SortedFunc(maps.Keys(held), compareWorkers) {
		var lengths [tiers]int
		place, i := "", 0
		for tier := range tiers {
			for ; i < len(local); i++ {
				next := fmt.Sprintf("%s/%d", place, local[i])
				if !held[w][fmt.Sprint(tier, next)] {
					break
				}
				lengths[tier]++
				place = next
			}
		}
		if i > 0 {
			found = append(found, Match{Worker: w, Device: lengths[0], HostPinned: lengths[1], Disk: lengths[2], External: lengths[3], Holed: holes[w]})
		}
	}
	return found
}
