package discovery

import (
	"container/heap"
	"time"

	"mooring/internal/fleet"
)

// agenda orders workers by the time at which something is due for them, at most
// one time each. Its zero value is empty.
type agenda struct {
	heap agendaHeap
	byID map[fleet.WorkerID]*agendaEntry
}

type agendaEntry struct {
	id    fleet.WorkerID
	at    time.Time
	index int // in the heap
}

// set makes something due for id at the given time, instead of before.
func (a *agenda) set(id fleet.WorkerID, at time.Time) {
	if e, ok := a.byID[id]; ok {
		e.at = at
		heap.Fix(&a.heap, e.index)
		return
	}
	if a.byID == nil {
		a.byID = make(map[fleet.WorkerID]*agendaEntry)
	}
	e := &agendaEntry{id: id, at: at}
	a.byID[id] = e
	heap.Push(&a.heap, e)
}

// hasten makes what is due for id due at the given time if that is earlier.
// Nothing becomes due for whom nothing was.
func (a *agenda) hasten(id fleet.WorkerID, at time.Time) {
	if e, ok := a.byID[id]; ok && at.Before(e.at) {
		a.set(id, at)
	}
}

func (a *agenda) remove(id fleet.WorkerID) {
	if e, ok := a.byID[id]; ok {
		heap.Remove(&a.heap, e.index)
		delete(a.byID, id)
	}
}

// take removes and returns the worker for whom something has been due longest.
func (a *agenda) take(now time.Time) (id fleet.WorkerID, late time.Duration, ok bool) {
	at, ok := a.next()
	if !ok || now.Before(at) {
		return 0, 0, false
	}
	e := heap.Pop(&a.heap).(*agendaEntry)
	delete(a.byID, e.id)
	return e.id, now.Sub(at), true
}

// next returns the earliest time at which something is due.
func (a *agenda) next() (time.Time, bool) {
	if len(a.heap) == 0 {
		return time.Time{}, false
	}
	return a.heap[0].at, true
}

// agendaHeap implements heap.Interface, the earliest first.
type agendaHeap []*agendaEntry

func (h agendaHeap) Len() int           { return len(h) }
func (h agendaHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h agendaHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *agendaHeap) Push(x any) {
	e := x.(*agendaEntry)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *agendaHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
