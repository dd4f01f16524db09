// Package agenda keeps what is due when, for many, soonest first.
package agenda

import (
	"container/heap"
	"time"
)

// Agenda orders keys by the time at which something is due for them, at most one
// time each. Its zero value is empty. It is not safe for concurrent use.
type Agenda[K comparable] struct {
	heap  entries[K]
	byKey map[K]*entry[K]
}

type entry[K comparable] struct {
	key   K
	at    time.Time
	index int // in the heap
}

// Set makes something due for key at the given time, instead of before.
func (a *Agenda[K]) Set(key K, at time.Time) {
	if e, ok := a.byKey[key]; ok {
		e.at = at
		heap.Fix(&a.heap, e.index)
		return
	}
	if a.byKey == nil {
		a.byKey = make(map[K]*entry[K])
	}
	e := &entry[K]{key: key, at: at}
	a.byKey[key] = e
	heap.Push(&a.heap, e)
}

// Hasten makes what is due for key due at the given time if that is earlier.
// Nothing becomes due for whom nothing was.
func (a *Agenda[K]) Hasten(key K, at time.Time) {
	if e, ok := a.byKey[key]; ok && at.Before(e.at) {
		a.Set(key, at)
	}
}

// AtLatest makes something due for key at the given time, unless something is before.
func (a *Agenda[K]) AtLatest(key K, at time.Time) {
	if e, ok := a.byKey[key]; !ok || at.Before(e.at) {
		a.Set(key, at)
	}
}

// Remove leaves nothing due for key.
func (a *Agenda[K]) Remove(key K) {
	if e, ok := a.byKey[key]; ok {
		heap.Remove(&a.heap, e.index)
		delete(a.byKey, key)
	}
}

// Take removes and returns the key for which something has been due longest, and
// for how long.
func (a *Agenda[K]) Take(now time.Time) (key K, late time.Duration, ok bool) {
	at, ok := a.Next()
	if !ok || now.Before(at) {
		return key, 0, false
	}
	e := heap.Pop(&a.heap).(*entry[K])
	delete(a.byKey, e.key)
	return e.key, now.Sub(at), true
}

// Next returns the earliest time at which something is due.
func (a *Agenda[K]) Next() (time.Time, bool) {
	if len(a.heap) == 0 {
		return time.Time{}, false
	}
	return a.heap[0].at, true
}

// Has reports whether something is due for key at any time.
func (a *Agenda[K]) Has(key K) bool {
	_, ok := a.byKey[key]
	return ok
}

// RemoveIf leaves nothing due for the keys that are so.
func (a *Agenda[K]) RemoveIf(so func(K) bool) {
	for key := range a.byKey {
		if so(key) {
			a.Remove(key)
		}
	}
}

// entries implements heap.Interface, the earliest first.
type entries[K comparable] []*entry[K]

func (h entries[K]) Len() int           { return len(h) }
func (h entries[K]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h entries[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *entries[K]) Push(x any) {
	e := x.(*entry[K])
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *entries[K]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
