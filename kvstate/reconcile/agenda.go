package reconcile

import (
	"container/heap"
	"time"
)

// agenda is the owners that are to be looked at again, soonest first. It is the
// heap's storage: use the methods of core.
type agenda []*owner

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].due.Before(a[j].due) }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].slot, a[j].slot = i, j
}

// Push and Pop are for container/heap.
func (a *agenda) Push(x any) {
	o := x.(*owner)
	o.slot = len(*a)
	*a = append(*a, o)
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	o := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	o.slot = -1
	return o
}

// schedule sets when o is looked at again; the zero time is not at all.
func (a *agenda) schedule(o *owner, at time.Time) {
	o.due = at
	switch {
	case at.IsZero() && o.slot >= 0:
		heap.Remove(a, o.slot)
	case at.IsZero():
	case o.slot >= 0:
		heap.Fix(a, o.slot)
	default:
		heap.Push(a, o)
	}
}

// next returns when the first owner is due; zero: none is.
func (a agenda) next() time.Time {
	if len(a) == 0 {
		return time.Time{}
	}
	return a[0].due
}
