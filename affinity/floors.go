package affinity

import (
	"container/heap"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// FloorLife is how long an unpin is remembered. A replica that was cut off for
// longer can bring an unpinned session back.
const FloorLife = 24 * time.Hour

// maxVoidLife bounds how long it is remembered that a first request never got to
// its worker. The life of bindings here is enough, since a copy that nobody uses
// has no more; where that is long, less will do: a copy that comes back after an
// hour from a replica that was cut off names a worker that can be used or not,
// like any other. So when there are too many floors these go before the unpins of
// operators, also at peers.
const maxVoidLife = time.Hour

// floor says that all bindings of a session up to a version are void. It is made
// by an operator's unpin, or when a binding's first request never got to its
// worker; they differ in their lives alone.
type floor struct {
	hashed
	version  version
	deadline instant
	pos      int // in the heap
}

// mergeFloor returns the join of two floors of a session: the higher version, and
// the later deadline, whichever has it: what a newer floor with a short life takes
// the place of stays void for as long as it was to be. Neither gets a fresh life:
// a floor that got one from each repair would live for ever.
func mergeFloor(v version, d instant, w version, e instant) (version, instant) {
	if v.compare(w) < 0 {
		v = w
	}
	return v, max(d, e)
}

// floors are the floors of one table, kept apart from its bindings: a newer
// binding must not remove a floor, or an older one could return when it expires.
// Their lock is taken after a shard's, never before.
type floors struct {
	size  atomic.Int64 // lets those pass who meet no floor at all
	limit int
	mu    struct {
		sync.Mutex
		bySession map[string]*floor
		oldest    floorHeap // by deadline
	}
}

func newFloors(limit int) *floors {
	f := &floors{limit: limit}
	f.mu.bySession = make(map[string]*floor)
	return f
}

// at returns the version of the session's floor, or the zero version.
func (f *floors) at(session string, now instant) version {
	if f.size.Load() == 0 {
		return version{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.mu.bySession[session]; fl != nil && fl.deadline > now {
		return fl.version
	}
	return version{}
}

// raise merges a floor in, which ends at deadline. It returns what became of it,
// when the session's floor ends now, and how many had to go for it.
func (f *floors) raise(session string, v version, now, deadline instant, d *digest) (applied Applied, ends instant, evicted int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sweepLocked(now, d)
	fl := f.mu.bySession[session]
	if fl == nil {
		fl = &floor{hashed: hashed{session: strings.Clone(session), floor: true}, version: v, deadline: deadline}
		f.mu.bySession[fl.session] = fl
		heap.Push(&f.mu.oldest, fl)
		d.replace(&fl.hashed, floorSum(session, v))
		for len(f.mu.oldest) > f.limit {
			f.dropLocked(d)
			evicted++
		}
		f.size.Store(int64(len(f.mu.oldest)))
		return Inserted, deadline, evicted
	}
	applied = Stale
	nv, nd := mergeFloor(fl.version, fl.deadline, v, deadline)
	switch {
	case nv != fl.version:
		d.replace(&fl.hashed, floorSum(session, nv))
		applied = Replaced
	case v == fl.version:
		applied = Refreshed
	}
	fl.version, fl.deadline = nv, nd
	heap.Fix(&f.mu.oldest, fl.pos)
	return applied, nd, 0
}

// full reports whether one more floor would push another out.
func (f *floors) full() bool { return f.size.Load() >= int64(f.limit) }

// sweep drops the floors that have ended.
func (f *floors) sweep(now instant, d *digest) {
	if f.size.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sweepLocked(now, d)
}

func (f *floors) sweepLocked(now instant, d *digest) {
	for len(f.mu.oldest) > 0 && f.mu.oldest[0].deadline <= now {
		f.dropLocked(d)
	}
	f.size.Store(int64(len(f.mu.oldest)))
}

func (f *floors) dropLocked(d *digest) {
	fl := heap.Pop(&f.mu.oldest).(*floor)
	delete(f.mu.bySession, fl.session)
	d.replace(&fl.hashed, 0)
}

// forget drops the session's floor before its time, against the rule FloorsStay.
func (f *floors) forget(session string, d *digest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.mu.bySession[session]; fl != nil {
		heap.Remove(&f.mu.oldest, fl.pos)
		delete(f.mu.bySession, session)
		d.replace(&fl.hashed, 0)
		f.size.Store(int64(len(f.mu.oldest)))
	}
}

// record returns the session's floor as it would be told now.
func (f *floors) record(session string, now instant) (Record, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.mu.bySession[session]
	if fl == nil || fl.deadline <= now {
		return Record{}, false
	}
	return Record{Sum: fl.sum, Event: Event{
		Kind: EventUnpinned, Session: session, Sequence: fl.version.sequence, WriterID: fl.version.writer, Life: timeLeft(fl.deadline, now),
	}}, true
}

// floorHeap has the floor that ends first on top.
type floorHeap []*floor

func (h floorHeap) Len() int           { return len(h) }
func (h floorHeap) Less(i, j int) bool { return h[i].deadline < h[j].deadline }
func (h floorHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}
func (h *floorHeap) Push(x any) {
	fl := x.(*floor)
	fl.pos = len(*h)
	*h = append(*h, fl)
}
func (h *floorHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
