package extproc

import (
	"container/list"
	"sync"
	"time"

	"mooring/affinity"
	"mooring/routing"
)

// joinKey names an HTTP request by what both the stream and its access log entry
// say of it. The request id alone would not do: clients may repeat it.
type joinKey struct {
	id    string // x-request-id
	start int64  // when Envoy began the request, Unix nanoseconds
}

// usable reports whether the key names anything.
func (k joinKey) usable() bool { return k.id != "" && k.start != 0 }

// lease is one route whose end is awaited.
type lease struct {
	id       uint64
	route    *routing.Route
	key      joinKey
	since    time.Time
	via      *connection   // over which it was picked; nil if not known
	unloaded bool          // no longer in the load figures
	same     *lease        // an older lease of the same HTTP request
	place    *list.Element // in the ledger's order
}

// ledger holds the routes whose end is awaited, oldest first. All routes wait
// equally long, so the oldest is also the next to give up on. Safe for concurrent
// use; routes are released after its lock is.
type ledger struct {
	limit   int
	metrics *metrics

	mu struct {
		sync.Mutex
		next   uint64 // number of the next lease
		leases map[uint64]*lease
		byKey  map[joinKey]*lease // the newest of each request
		order  *list.List         // of *lease
		recent recentEnds
	}
}

func newLedger(first uint64, limit int, m *metrics) *ledger {
	l := &ledger{limit: limit, metrics: m}
	l.mu.next = first
	l.mu.leases = make(map[uint64]*lease)
	l.mu.byKey = make(map[joinKey]*lease)
	l.mu.order = list.New()
	l.mu.recent = newRecentEnds()
	return l
}

// add takes over rt, which was picked over via, and returns the number that its
// end will be reported under. False: the end was reported already, and rt is
// released.
func (l *ledger) add(rt *routing.Route, key joinKey, via *connection) (id uint64, alive bool) {
	now := time.Now()
	l.mu.Lock()
	if outcome, over := l.mu.recent.take(key); over {
		l.mu.Unlock()
		l.metrics.ends.WithLabelValues(outcome.String(), byOvertaking).Inc()
		rt.Release(outcome)
		return 0, false
	}
	e := &lease{id: l.mu.next, route: rt, key: key, since: now, via: via}
	l.mu.next++
	l.mu.leases[e.id] = e
	e.place = l.mu.order.PushBack(e)
	if key.usable() {
		e.same = l.mu.byKey[key]
		l.mu.byKey[key] = e
	}
	var evicted *lease
	if len(l.mu.leases) > l.limit {
		evicted = l.mu.order.Front().Value.(*lease)
		l.removeLocked(evicted)
	}
	l.mu.Unlock()
	l.release(evicted, affinity.Completed, byEviction)
	return e.id, true
}

// end is endServed without knowing who served the request.
func (l *ledger) end(id uint64, outcome affinity.Outcome, by string) (*lease, bool) {
	return l.endServed(id, outcome, "", by)
}

// endServed ends the lease of that number, whose request was served by the worker
// at an address. False if it is unknown: it has ended already, or never was.
func (l *ledger) endServed(id uint64, outcome affinity.Outcome, served, by string) (*lease, bool) {
	l.mu.Lock()
	e, ok := l.mu.leases[id]
	if ok {
		l.removeLocked(e)
	}
	l.mu.Unlock()
	if !ok {
		return nil, false
	}
	l.releaseServed(e, outcome, served, by)
	return e, true
}

// endRequest ends every lease of an HTTP request. If there is none, the end is
// remembered for a while: its pick may be on its way here.
func (l *ledger) endRequest(key joinKey, outcome affinity.Outcome, served string) (*lease, bool) {
	if !key.usable() {
		return nil, false
	}
	l.mu.Lock()
	newest := l.mu.byKey[key]
	if newest == nil {
		l.mu.recent.put(key, outcome)
	}
	var all []*lease
	for e := newest; e != nil; e = e.same {
		all = append(all, e)
	}
	for _, e := range all {
		l.removeLocked(e)
	}
	l.mu.Unlock()
	for _, e := range all {
		l.releaseServed(e, outcome, served, byJoin)
	}
	return newest, newest != nil
}

// expire ends the leases from before cutoff.
func (l *ledger) expire(cutoff time.Time) {
	for {
		l.mu.Lock()
		front := l.mu.order.Front()
		if front == nil || !front.Value.(*lease).since.Before(cutoff) {
			l.mu.Unlock()
			return
		}
		e := front.Value.(*lease)
		l.removeLocked(e)
		l.mu.Unlock()
		l.release(e, affinity.Completed, byExpiry)
	}
}

// orphan ends the leases that were picked over connections which are lost.
func (l *ledger) orphan(lost map[*connection]bool) {
	if len(lost) == 0 {
		return
	}
	l.mu.Lock()
	var orphans []*lease
	for _, e := range l.mu.leases {
		if lost[e.via] {
			orphans = append(orphans, e)
		}
	}
	for _, e := range orphans {
		l.removeLocked(e)
	}
	l.mu.Unlock()
	for _, e := range orphans {
		l.release(e, affinity.Completed, byOrphaning)
	}
}

// unload takes the leases from before cutoff out of the load figures.
func (l *ledger) unload(cutoff time.Time) (n int) {
	l.mu.Lock()
	var routes []*routing.Route
	for at := l.mu.order.Front(); at != nil; at = at.Next() {
		e := at.Value.(*lease)
		if !e.since.Before(cutoff) {
			break
		}
		if !e.unloaded {
			e.unloaded = true
			routes = append(routes, e.route)
		}
	}
	l.mu.Unlock()
	for _, rt := range routes {
		rt.Unload()
	}
	return len(routes)
}

// len returns how many ends are awaited.
func (l *ledger) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.leases)
}

func (l *ledger) removeLocked(e *lease) {
	delete(l.mu.leases, e.id)
	l.mu.order.Remove(e.place)
	if !e.key.usable() {
		return
	}
	newest := l.mu.byKey[e.key]
	switch {
	case newest == e && e.same == nil:
		delete(l.mu.byKey, e.key)
	case newest == e:
		l.mu.byKey[e.key] = e.same
	default:
		for n := newest; n != nil; n = n.same {
			if n.same == e {
				n.same = e.same
			}
		}
	}
}

func (l *ledger) release(e *lease, outcome affinity.Outcome, by string) {
	if e != nil {
		l.releaseServed(e, outcome, "", by)
	}
}

func (l *ledger) releaseServed(e *lease, outcome affinity.Outcome, served, by string) {
	l.metrics.ends.WithLabelValues(outcome.String(), by).Inc()
	e.route.ReleaseServed(outcome, served)
}
