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
	event   affinity.Event
	refresh bool          // only a use: what is sent is read when it is sent
	pending bool          // used since the last sending
	queued  *list.Element // in ready; nil: not
	due     time.Time     // when a refresh may be sent again
	timed   bool          // in timed
}

// sink keeps what is to be published: bounded, and one event per session. Its
// methods are safe for concurrent use and never block for long.
type sink struct {
	mu      sync.Mutex
	limit   int
	slots   map[slotKey]*slot
	ready   list.List // slots to be sent
	timed   list.List // slots that were sent, by due
	dropped int       // since the last drain

	wake chan struct{} // holds a token when something is to be sent at once
}

func newSink(limit int) *sink {
	return &sink{limit: limit, slots: make(map[slotKey]*slot), wake: make(chan struct{}, 1)}
}

// add queues an event. A use within the interval after the last sending waits
// for the interval's end: peers would otherwise expire the session early.
func (s *sink) add(p fleet.Partition, ev affinity.Event, keepEarly bool) {
	key := slotKey{p, ev.Session, ev.Kind == affinity.EventUnpinned}
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.slots[key]
	if sl == nil {
		if len(s.slots) >= s.limit && !s.makeRoom(ev.Kind == affinity.EventUsed) {
			s.dropped++
			return
		}
		sl = &slot{key: key}
		s.slots[key] = sl
	}
	use := ev.Kind == affinity.EventUsed
	switch {
	case use && sl.queued == nil && sl.timed:
		sl.pending = keepEarly
	case sl.queued != nil:
		if !use && (sl.refresh || !older(ev, sl.event)) {
			sl.event, sl.refresh = ev, false
		}
	default:
		sl.event, sl.refresh = ev, use
		sl.queued = s.ready.PushBack(sl)
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func older(a, b affinity.Event) bool {
	return a.Sequence < b.Sequence || a.Sequence == b.Sequence && a.WriterID < b.WriterID
}

// makeRoom drops the oldest refresh, or for something other than a refresh the
// oldest of all. It looks at a bounded number of slots.
func (s *sink) makeRoom(forRefresh bool) bool {
	for l, n := s.timed.Front(), 0; l != nil && n < 64; l, n = l.Next(), n+1 {
		if sl := l.Value.(*slot); sl.queued == nil {
			if sl.pending {
				s.dropped++
			}
			s.timed.Remove(l)
			delete(s.slots, sl.key)
			return true
		}
	}
	if front := s.ready.Front(); front != nil && !forRefresh {
		sl := front.Value.(*slot)
		s.ready.Remove(front)
		sl.queued = nil
		if !sl.timed {
			delete(s.slots, sl.key)
		}
		s.dropped++
		return !sl.timed
	}
	return false
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
		sl.timed = false
		switch {
		case sl.queued != nil:
		case sl.pending:
			sl.refresh, sl.pending = true, false
			sl.queued = s.ready.PushBack(sl)
		default:
			delete(s.slots, sl.key)
		}
	}
	for l := s.ready.Front(); l != nil && len(out) < n; l = s.ready.Front() {
		sl := l.Value.(*slot)
		s.ready.Remove(l)
		sl.queued = nil
		out = append(out, outgoing{sl.key.partition, sl.event, sl.refresh})
		if !sl.timed {
			sl.due, sl.timed = now.Add(interval), true
			s.timed.PushBack(sl)
		}
	}
	dropped, s.dropped = s.dropped, 0
	return out, dropped
}
