package replication

import (
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// TestTrafficIsATrickle counts the messages of sessions of 1, 10 and 100 turns,
// ten seconds each, with a TTL of 30 minutes: one for the binding, and one in
// each 225 s of use after it. The base sends two per turn.
func TestTrafficIsATrickle(t *testing.T) {
	for turns, most := range map[int]int{1: 1, 10: 1, 100: 1 + 1000/225} {
		synctest.Test(t, func(t *testing.T) {
			p := fleet.Partition{Model: "m", Group: "g"}
			s := newSink(10)
			ev := affinity.Event{Kind: affinity.EventBound, Session: "s", Sequence: 1}
			sent := 0
			for range turns {
				s.add(p, ev, true)
				ev.Kind = affinity.EventUsed
				for range 10 {
					time.Sleep(time.Second)
					out, _ := s.drain(time.Now(), 225*time.Second, 10)
					sent += len(out)
				}
			}
			if sent != most {
				t.Errorf("%d turns: %d messages, want %d", turns, sent, most)
			}
		})
	}
}

// TestSinkIsBounded fills the sink: it never grows beyond its limit, counts what
// it drops, and drops refreshes before bindings.
func TestSinkIsBounded(t *testing.T) {
	p := fleet.Partition{Model: "m", Group: "g"}
	s := newSink(10)
	for i := range 100 {
		s.add(p, affinity.Event{Session: string(rune('a' + i)), Sequence: uint64(i)}, true)
	}
	out, dropped := s.drain(time.Now(), time.Second, 1000)
	if len(out) != 10 || dropped != 90 || out[9].event.Sequence != 99 {
		t.Fatalf("%d sent, %d dropped; want the last 10 of 100", len(out), dropped)
	}
	for i := range 5 {
		s.add(p, affinity.Event{Session: string(rune('a' + 90 + i)), Sequence: uint64(100 + i)}, true)
	}
	s.add(p, affinity.Event{Session: "new", Sequence: 1}, true)
	if out, _ := s.drain(time.Now(), time.Second, 1000); len(out) != 6 || s.size > 10 {
		t.Errorf("%d sent, %d kept", len(out), s.size)
	}
}

// TestSinkDropsRefreshesFirst fills a sink with refreshes and changes in turn.
func TestSinkDropsRefreshesFirst(t *testing.T) {
	p := fleet.Partition{Model: "m", Group: "g"}
	s := newSink(10)
	for i := range 10 {
		kind := affinity.EventUsed
		if i%2 == 1 {
			kind = affinity.EventBound
		}
		s.add(p, affinity.Event{Kind: kind, Session: string(rune('a' + i)), Sequence: uint64(i)}, true)
	}
	for i := range 6 {
		s.add(p, affinity.Event{Kind: affinity.EventBound, Session: string(rune('A' + i)), Sequence: uint64(10 + i)}, true)
	}
	s.add(p, affinity.Event{Kind: affinity.EventUsed, Session: "late"}, true)
	out, dropped := s.drain(time.Now(), time.Second, 1000)
	if len(out) != 10 || dropped != 7 || out[0].event.Session != "d" || out[9].event.Session != "F" {
		t.Errorf("sent %v, dropped %d; want the last ten changes, and the five refreshes dropped before the first change", out, dropped)
	}
}

// TestSlotsOfOneSession publishes the same session in three partitions, bound and
// unpinned: none takes the place of another, and none stays.
func TestSlotsOfOneSession(t *testing.T) {
	s := newSink(100)
	now := time.Now()
	for n, kind := range []affinity.EventKind{affinity.EventBound, affinity.EventUnpinned} {
		for i := range 3 {
			s.add(fleet.Partition{Model: string(rune('a' + i))}, affinity.Event{Kind: kind, Session: "s", Sequence: uint64(1 + n)}, true)
		}
	}
	if out, _ := s.drain(now, time.Second, 100); len(out) != 6 {
		t.Errorf("%d sent, want 6", len(out))
	}
	s.add(fleet.Partition{Model: "b"}, affinity.Event{Kind: affinity.EventUsed, Session: "s"}, true)
	if out, _ := s.drain(now.Add(time.Second), time.Second, 100); len(out) != 1 || s.size != 1 {
		t.Errorf("%d sent, %d kept; want only what was used", len(out), s.size)
	}
	if s.drain(now.Add(2*time.Second), time.Second, 100); s.size != 0 || len(s.slots) != 0 {
		t.Errorf("%d slots are left", s.size)
	}
}

// TestSinkKeepsTheNewest queues events of a session out of order, as goroutines
// that changed it one after the other may: what is sent is the newest.
func TestSinkKeepsTheNewest(t *testing.T) {
	p := fleet.Partition{Model: "m", Group: "g"}
	version := func(sequence, writer uint64) affinity.Event {
		return affinity.Event{Kind: affinity.EventBound, Session: "s", Sequence: sequence, WriterID: writer}
	}
	for _, events := range [][]affinity.Event{
		{version(5, 1), version(4, 9)}, {version(4, 9), version(5, 1)}, {version(5, 1), version(5, 0)}, {version(5, 0), version(5, 1)},
	} {
		s := newSink(10)
		for _, ev := range events {
			s.add(p, ev, true)
		}
		if out, _ := s.drain(time.Now(), time.Second, 10); len(out) != 1 || out[0].event != version(5, 1) {
			t.Errorf("of %v it sends %v, want the newer one", events, out)
		}
	}
}
