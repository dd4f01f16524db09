package affinity

// deadlines is a 4-ary heap of entries by the time at which the sweeper must
// look at them. It is lazy: a deadline that moves away leaves its place as it
// is, and the sweeper files the entry anew when it gets there. So a use costs
// nothing here.
//
// Invariant: heap[i].entry.pos == i; heap[i].due <= what entry.due says now.
type deadlines []deadline

type deadline struct {
	due   instant
	entry *entry
}

// unfiled is the pos of an entry that is in no heap.
const unfiled = -1

// file makes sure that e is looked at no later than due.
func (d *deadlines) file(e *entry, due instant) {
	if e.pos == unfiled {
		*d = append(*d, deadline{due, e})
		d.up(len(*d) - 1)
	} else if due < (*d)[e.pos].due {
		(*d)[e.pos].due = due
		d.up(int(e.pos))
	}
}

// postpone moves the first entry to a later due.
func (d *deadlines) postpone(due instant) {
	(*d)[0].due = due
	d.down(0)
}

// remove takes e out.
func (d *deadlines) remove(e *entry) {
	h := *d
	i, last := int(e.pos), len(h)-1
	e.pos = unfiled
	moved := h[last]
	h[last] = deadline{}
	*d = h[:last]
	if i == last {
		return
	}
	h[i] = moved
	moved.entry.pos = int32(i)
	d.up(i)
	d.down(int(moved.entry.pos))
}

func (d *deadlines) up(i int) {
	h := *d
	x := h[i]
	for i > 0 {
		parent := (i - 1) / 4
		if h[parent].due <= x.due {
			break
		}
		h[i] = h[parent]
		h[i].entry.pos = int32(i)
		i = parent
	}
	h[i] = x
	x.entry.pos = int32(i)
}

func (d *deadlines) down(i int) {
	h := *d
	x := h[i]
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].due < h[least].due {
				least = c
			}
		}
		if x.due <= h[least].due {
			break
		}
		h[i] = h[least]
		h[i].entry.pos = int32(i)
		i = least
	}
	h[i] = x
	x.entry.pos = int32(i)
}
