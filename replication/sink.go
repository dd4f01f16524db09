package replication

import (
	"container/list"
	"sync"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// slotKey is what later events replace: a session's binding, or its floor.
type slotKey struct {
	partition fleet.Partition
	session   string
	floor     bool
}

// slot is what the sink knows of a session that was or is to be published.
type slot struct {
	key     slotKey
	next    *slot // of the same session: in another partition, or its floor; nil: none
	event   affinity.Event
	refresh bool          // only a use: what is sent is read when it is sent
	pending bool          // used since the last sending
	queued  *list.Element // in uses if refresh, else in changes; nil: in neither
	timed   *list.Element // in timed; nil: not there
	due     time.Time     // when a refresh may be sent again
}

// sink keeps what is to be published: bounded, and one event per session. Its
// methods are safe for concurrent use and never block for long.
type sink struct {
	mu      sync.Mutex
	limit   int
	slots   map[string]*slot // by session: the lists of slots that next makes
	size    int              // how many slots there are
	changes list.List        // slots to be sent
	uses    list.List        // slots to be sent after those
	timed   list.List        // slots that were sent, by due
	dropped int              // since the last drain

	wake chan struct{} // holds a token when something is to be sent at once
}

func newSink(limit int) *sink {
	return &sink{limit: limit, slots: make(map[string]*slot), wake: make(chan struct{}, 1)}
}

// add queues an event. A use within the interval after the last sending waits
// for the interval's end: peers would otherwise expire the session early.
func (s *sink) add(p fleet.Partition, ev affinity.Event, keepEarly bool) {
	use, floor := ev.Kind == affinity.EventUsed, ev.Kind == affinity.EventUnpinned
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.slots[ev.Session]
	for sl != nil && (sl.key.floor != floor || sl.key.partition != p) {
		sl = sl.next
	}
	switch {
	case sl == nil && s.size >= s.limit && !s.makeRoom(use):
		s.dropped++
	case sl == nil:
		sl = &slot{key: slotKey{p, ev.Session, floor}, next: s.slots[ev.Session], event: ev, refresh: use}
		s.slots[ev.Session] = sl
		s.size++
		s.queue(sl)
	case use && sl.queued == nil && sl.timed != nil:
		sl.pending = keepEarly
	case sl.queued == nil:
		sl.event, sl.refresh = ev, use
		s.queue(sl)
	case !use && sl.refresh:
		s.uses.Remove(sl.queued)
		sl.event, sl.refresh = ev, false
		s.queue(sl)
	case !use && !older(ev, sl.event):
		sl.event = ev
	}
}

// queue puts a slot that is not queued at the end of its list.
func (s *sink) queue(sl *slot) {
	if sl.refresh {
		sl.queued = s.uses.PushBack(sl)
	} else {
		sl.queued = s.changes.PushBack(sl)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func older(a, b affinity.Event) bool {
	return a.Sequence < b.Sequence || a.Sequence == b.Sequence && a.WriterID < b.WriterID
}

// forget drops a slot, wherever it is.
func (s *sink) forget(sl *slot) {
	switch {
	case sl.queued != nil && sl.refresh:
		s.uses.Remove(sl.queued)
	case sl.queued != nil:
		s.changes.Remove(sl.queued)
	}
	if sl.timed != nil {
		s.timed.Remove(sl.timed)
	}
	s.size--
	switch first := s.slots[sl.key.session]; {
	case first != sl:
		for ; first.next != sl; first = first.next {
		}
		first.next = sl.next
	case sl.next != nil:
		s.slots[sl.key.session] = sl.next
	default:
		delete(s.slots, sl.key.session)
	}
}

// makeRoom drops the oldest refresh, or for something other than a refresh the
// oldest of all. It looks at a bounded number of slots.
func (s *sink) makeRoom(forRefresh bool) bool {
	for l, n := s.timed.Front(), 0; l != nil && n < 64; l, n = l.Next(), n+1 {
		if sl := l.Value.(*slot); sl.queued == nil {
			if sl.pending {
				s.dropped++
			}
			s.forget(sl)
			return true
		}
	}
	oldest := s.uses.Front()
	if oldest == nil && !forRefresh {
		oldest = s.changes.Front()
	}
	if oldest == nil {
		return false
	}
	s.dropped++
	s.forget(oldest.Value.(*slot))
	return true
}

// outgoing is an event that is due.
type outgoing struct {
	partition fleet.Partition
	event     affinity.Event
	refresh   bool
}

// drain takes up to n events that are due, and tells how many were dropped.
func (s *sink) drain(now time.Time, interval time.Duration, n int) (out []outgoing, dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.timed.Front(); l != nil && !l.Value.(*slot).due.After(now); l = s.timed.Front() {
		sl := l.Value.(*slot)
		s.timed.Remove(l)
		sl.timed = nil
		switch {
		case sl.queued != nil:
		case sl.pending:
			sl.refresh, sl.pending = true, false
			s.queue(sl)
		default:
			s.forget(sl)
		}
	}
	for _, from := range []*list.List{&s.changes, &s.uses} {
		for l := from.Front(); l != nil && len(out) < n; l = from.Front() {
			sl := l.Value.(*slot)
			from.Remove(l)
			sl.queued = nil
			out = append(out, outgoing{sl.key.partition, sl.event, sl.refresh})
			if sl.timed == nil {
				sl.due = now.Add(interval)
				sl.timed = s.timed.PushBack(sl)
			}
		}
	}
	dropped, s.dropped = s.dropped, 0
	return out, dropped
}
