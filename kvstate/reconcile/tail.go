package reconcile

import (
	"cmp"
	"slices"

	"mooring/kvstate"
)

const (
	maxTailEvents = 16 << 10
	maxTailBytes  = 32 << 20
)

// tail is the live events of one owner that cannot be applied yet: a recovery is
// under way, or events before them are missing. It is bounded; what does not fit
// is missing like any other event and is asked for later. The zero value is empty.
type tail struct {
	events []kvstate.RouterEvent
	bytes  int
}

// add keeps e, but for what nobody here needs. It reports whether there was room.
func (t *tail) add(e kvstate.RouterEvent) bool {
	e.SessionID, e.Store.MM = nil, nil
	n := bytesOf(&e)
	if len(t.events) >= maxTailEvents || t.bytes+n > maxTailBytes {
		return false
	}
	t.events = append(t.events, e)
	t.bytes += n
	return true
}

// bytesOf returns about how much memory e takes.
func bytesOf(e *kvstate.RouterEvent) int {
	const event, block, hash = 512, 16, 8 // the first with its owner
	return event + len(e.Domain.Name) + block*cap(e.Store.Blocks) + hash*cap(e.Removed)
}

// take removes and returns, in order and each once, the events that follow cursor
// without a gap. Those at or below cursor are dropped, those behind a gap stay.
func (t *tail) take(cursor uint64) []kvstate.RouterEvent {
	slices.SortStableFunc(t.events, func(a, b kvstate.RouterEvent) int { return cmp.Compare(a.EventID, b.EventID) })
	var next []kvstate.RouterEvent
	stay := 0
	for ; stay < len(t.events); stay++ {
		e := t.events[stay]
		if e.EventID > cursor && e.EventID-cursor > 1 {
			break
		}
		t.bytes -= bytesOf(&e)
		if e.EventID > cursor {
			next = append(next, e)
			cursor = e.EventID
		}
	}
	t.events = slices.Delete(t.events, 0, stay)
	return next
}

// first returns the lowest event id.
func (t *tail) first() (id uint64, ok bool) {
	for i, e := range t.events {
		if i == 0 || e.EventID < id {
			id = e.EventID
		}
	}
	return id, len(t.events) > 0
}

func (t *tail) clear() { *t = tail{} }
