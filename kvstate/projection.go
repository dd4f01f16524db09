package kvstate

import (
	"bytes"
	"iter"
	"slices"
)

// Projection says which worker each owner's blocks count for. It is immutable:
// any number of goroutines may read it, and one look-up of a whole prompt should
// use one projection throughout. The zero value, and nil, are empty.
//
// For each Ready cache owner it holds the owner's own key and the key of its
// worker, so that blocks of the worker domain count only while an owner is Ready
// on that worker.
type Projection struct {
	// Keys are hashes, so their first byte spreads them evenly. A new projection
	// shares the shards that did not change; each is sorted by key.
	shards [256][]entry
	owners int // cache owners
	shared int // workers with more than one cache owner
}

// entry is one key. That of a cache owner has owner set, that of a worker counts
// the owners which project to it.
type entry struct {
	key   OwnerKey
	to    Worker
	holed bool        // of a worker: some owner on it is
	owner *ownerEntry // nil for a worker
	// Invariant: 0 < on for a worker, holedOn <= on, holed == (holedOn > 0).
	on, holedOn uint32
}

type ownerEntry struct {
	id      CacheOwnerID
	barrier uint64
}

// Worker returns the worker that the owner's blocks count for, and whether the
// owner's state has known holes. ok is false for an owner that is not projected.
// It takes no lock and allocates nothing.
func (p *Projection) Worker(key OwnerKey) (w Worker, holed bool, ok bool) {
	if p == nil {
		return Worker{}, false, false
	}
	shard := p.shards[key[0]]
	i, ok := find(shard, &key)
	if !ok {
		return Worker{}, false, false
	}
	return shard[i].to, shard[i].holed, true
}

// find is slices.BinarySearchFunc without its calls by value: entries are large.
func find(shard []entry, key *OwnerKey) (int, bool) {
	low, high := 0, len(shard)
	for low < high {
		mid := int(uint(low+high) >> 1)
		switch c := bytes.Compare(shard[mid].key[:], key[:]); {
		case c == 0:
			return mid, true
		case c < 0:
			low = mid + 1
		default:
			high = mid
		}
	}
	return low, false
}

// Len returns the number of projected cache owners.
func (p *Projection) Len() int {
	if p == nil {
		return 0
	}
	return p.owners
}

// SharedWorkers returns the number of workers to which more than one cache owner
// projects. That is accepted, since upstream accepts it, but is seldom meant.
func (p *Projection) SharedWorkers() int {
	if p == nil {
		return 0
	}
	return p.shared
}

// Projected is one projected cache owner.
type Projected struct {
	Owner   CacheOwnerID
	Key     OwnerKey // Owner's
	Worker  Worker
	Barrier uint64
	Holed   bool
	Sharing int // how many cache owners project to Worker, this one included
}

// All yields every projected cache owner, ordered by key.
func (p *Projection) All() iter.Seq[Projected] {
	return func(yield func(Projected) bool) {
		if p == nil {
			return
		}
		for _, shard := range p.shards {
			for _, e := range shard {
				if e.owner == nil {
					continue
				}
				on, _ := p.entry(WorkerKey(e.to))
				if !yield(Projected{e.owner.id, e.key, e.to, e.owner.barrier, e.holed, int(on.on)}) {
					return
				}
			}
		}
	}
}

func (p *Projection) entry(key OwnerKey) (entry, bool) {
	shard := p.shards[key[0]]
	i, ok := find(shard, &key)
	if !ok {
		return entry{}, false
	}
	return shard[i], true
}

// projectionEdit makes a new projection out of an old one, copying a shard the
// first time it changes. Owned by its maker; done once next is handed out.
type projectionEdit struct {
	next    Projection
	copied  [256]bool
	changed bool
}

func (p *Projection) edit() *projectionEdit {
	e := new(projectionEdit)
	if p != nil {
		e.next = *p
	}
	return e
}

// put projects r.Owner as r says, in place of whatever was projected before:
// nothing if r is not Ready.
func (e *projectionEdit) put(r *Resolution) {
	key := r.Owner.Key()
	old, had := e.next.entry(key)
	switch {
	case r.State != Ready:
		if had {
			e.drop(old)
		}
		return
	case had && old.to == r.Worker && old.holed == r.Holed && old.owner.barrier == r.Barrier:
		return
	case had:
		e.drop(old)
	}
	e.set(entry{key: key, to: r.Worker, holed: r.Holed, owner: &ownerEntry{r.Owner, r.Barrier}})
	e.next.owners++
	e.countOn(r.Worker, +1, r.Holed)
}

func (e *projectionEdit) drop(old entry) {
	e.remove(old.key)
	e.next.owners--
	e.countOn(old.to, -1, old.holed)
}

// countOn adds an owner to those that project to w, or takes one away.
func (e *projectionEdit) countOn(w Worker, by int, holed bool) {
	key := WorkerKey(w)
	on, _ := e.next.entry(key)
	before := on.on
	on.key, on.to = key, w
	on.on += uint32(by) // wraps for -1, as does the line below
	if holed {
		on.holedOn += uint32(by)
	}
	on.holed = on.holedOn > 0
	if before == 1 && on.on == 2 {
		e.next.shared++
	}
	if before == 2 && on.on == 1 {
		e.next.shared--
	}
	if on.on == 0 {
		e.remove(key)
		return
	}
	e.set(on)
}

func (e *projectionEdit) set(n entry) {
	shard := e.shard(n.key)
	i, ok := find(*shard, &n.key)
	if ok {
		(*shard)[i] = n
		return
	}
	*shard = slices.Insert(*shard, i, n)
}

func (e *projectionEdit) remove(key OwnerKey) {
	shard := e.shard(key)
	if i, ok := find(*shard, &key); ok {
		*shard = slices.Delete(*shard, i, i+1)
	}
}

// shard returns the shard of key, copied so that it may be changed.
func (e *projectionEdit) shard(key OwnerKey) *[]entry {
	shard := &e.next.shards[key[0]]
	if !e.copied[key[0]] {
		*shard = append(make([]entry, 0, len(*shard)+1), *shard...)
		e.copied[key[0]] = true
	}
	e.changed = true
	return shard
}
