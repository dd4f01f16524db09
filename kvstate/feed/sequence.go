package feed

import (
	"bytes"

	"github.com/zeebo/xxh3"
)

type actionKind uint8

const (
	apply   actionKind = iota // the batch seq
	hole                      // batches from seq up to, not including, until will never come
	restart                   // the engine starts anew
	replay                    // ask for a replay from seq, as attempt, the tries-th of this repair; an earlier one is void
)

// An action is what a sequencer wants done. They are done in order.
type action struct {
	kind       actionKind
	seq, until uint64
	attempt    uint64
	tries      int
	payload    []byte
}

// A numbered batch is one that waits.
type numbered struct {
	seq     uint64
	payload []byte
}

// sequencer decides which batch is applied when: each sequence number at most
// once and in order, with gaps repaired by replays or given up as holes. It has
// no clock and does no I/O: every method takes what happened and returns what
// to do, in memory that lasts until the next call. Not for concurrent use.
//
// Two streams come in. Live batches of one connection only go up; one that goes
// back, or is not above the last one of the connection before, is of another
// engine process. Replayed ones may overlap with them either way; they
// are believed as long as the live ones do not show that they are of another
// engine (foreign.go).
type sequencer struct {
	canReplay bool
	dropped   *[reasons]uint64 // counts

	next    uint64 // the number that is due; Invariant: all below were applied or given up
	applied bool   // at least one was, since the engine started
	sum     uint64 // of the payload applied last

	floor   uint64 // what may come first on this connection: after the last live number before it
	live    uint64 // the last live number of this connection
	hasLive bool
	unseen  bool // some were dropped after it, and after the last replay was asked for

	// unproven: batches may have been missed, while there was no connection or
	// because there were too many.
	unproven bool

	repairing bool
	attempt   uint64 // the last; messages of others are stale
	start     uint64 // what it asked for
	verify    bool   // it asked for the batch applied last, to see that the engine still knows it
	asked     uint64 // next, when it began; it brought something new if next is greater now
	silent    bool   // it brought nothing yet
	broken    bool   // it left something out; what follows is not applied
	tries     int    // attempts of this repair
	vain      int    // of them, the last ones that were cut off without progress

	same    bool // a batch of the last replay was seen to be the live one of its number
	behind  bool // live batches come whose numbers a replay brought, and it is not known that they are the same
	behinds int  // how many since a replay was asked to prove it

	waiting      []numbered // of rising numbers
	waitingBytes int

	actions []action
}

// doubtful reports whether batches may be missing that may still come.
func (s *sequencer) doubtful() bool { return s.unproven || s.repairing || s.behind }

// connected says that a new connection was made; live batches are its own from
// now on.
func (s *sequencer) connected() []action {
	s.begin()
	if s.hasLive { // and not next: a replay may have brought what now comes live
		s.floor = min(s.next, s.live+1)
	}
	s.hasLive = false
	s.stopRepair()
	s.unproven = true
	if s.canReplay {
		s.repair(s.applied)
	}
	return s.actions
}

// lost says that the connection is gone.
func (s *sequencer) lost() []action {
	s.begin()
	s.stopRepair()
	s.unproven = true
	return s.actions
}

// received takes a live batch.
func (s *sequencer) received(seq uint64, payload []byte) []action {
	s.begin()
	if s.again(seq, payload) {
		s.dropped[Duplicate]++
		return s.actions
	}
	back := (s.hasLive && seq <= s.live) || (!s.hasLive && seq < s.floor)
	s.live, s.hasLive, s.unseen = seq, true, false
	if back {
		s.restart()
	}
	s.offer(seq, payload)
	return s.actions
}

// missed says that live batches were dropped before they got here. Which, the
// next one will show, if there is one.
func (s *sequencer) missed() []action {
	s.begin()
	verify := s.unproven && s.applied
	s.unproven, s.unseen = true, true
	if s.canReplay && !s.repairing {
		s.repair(verify)
	}
	return s.actions
}

// replayed takes a batch of a replay.
func (s *sequencer) replayed(attempt, seq uint64, payload []byte) []action {
	s.begin()
	if !s.repairing || attempt != s.attempt || s.broken || s.foreign(seq, payload) {
		return s.actions
	}
	silent := s.silent
	s.silent = false
	switch {
	case seq < s.start:
		s.silent = silent // not asked for
		s.dropped[Duplicate]++
	case silent && s.verify && seq == s.start:
		if xxh3.Hash(payload) != s.sum {
			s.restartByReplay()
		}
	case silent && s.verify && s.tries == 1:
		s.silent, s.broken = true, true // lost on the way, it may be
	case silent && s.verify:
		s.unverified(seq)
		s.apply(seq, payload)
	case seq < s.next:
		s.dropped[Duplicate]++
	case seq > s.next && !silent:
		s.broken = true // lost on the way; ask for it again
	default:
		s.skipTo(seq)
		s.apply(seq, payload)
	}
	return s.actions
}

// replayEnded says that a replay is over; complete: the engine said so itself.
func (s *sequencer) replayEnded(attempt uint64, complete bool) []action {
	s.begin()
	if !s.repairing || attempt != s.attempt {
		return s.actions
	}
	if s.vain++; complete || s.next > s.asked {
		s.vain = 0
	}
	switch {
	case (s.broken || !complete) && (s.vain >= maxVain || s.tries >= maxAttempts):
		s.surrender()
	case s.broken || !complete:
		s.ask(s.verify && s.silent)
	case s.verify && s.silent:
		s.restartByReplay()
	default:
		s.settle()
	}
	return s.actions
}

// again says whether this is the last live batch once more.
func (s *sequencer) again(seq uint64, payload []byte) bool {
	switch n := len(s.waiting); {
	case !s.hasLive || seq != s.live:
		return false
	case n > 0 && s.waiting[n-1].seq == seq:
		return bytes.Equal(s.waiting[n-1].payload, payload)
	case seq+1 < s.next:
		return true // a replay is ahead of it: if it is another engine's, that one's next will show
	}
	return s.applied && seq+1 == s.next && xxh3.Hash(payload) == s.sum
}

func (s *sequencer) begin() {
	clear(s.actions)
	if s.actions = s.actions[:0]; cap(s.actions) > 256 {
		s.actions = nil
	}
}

func (s *sequencer) do(a action) { s.actions = append(s.actions, a) }

func (s *sequencer) apply(seq uint64, payload []byte) {
	s.do(action{kind: apply, seq: seq, payload: payload})
	s.next, s.applied, s.sum = seq+1, true, xxh3.Hash(payload)
}

// skipTo gives up all batches below seq that were not applied.
func (s *sequencer) skipTo(seq uint64) {
	if seq > s.next {
		s.do(action{kind: hole, seq: s.next, until: seq})
		s.next = seq
	}
}

// offer applies a live batch that nothing has to be waited for, or begins to
// repair what is missing before it.
func (s *sequencer) offer(seq uint64, payload []byte) {
	switch {
	case seq < s.next:
		s.known(seq, payload)
		return
	case s.repairing:
		s.wait(seq, payload)
		return
	case s.canReplay && (seq > s.next || (s.unproven && s.applied) || s.behind):
		s.repair(s.unproven && s.applied)
		s.wait(seq, payload)
		return
	}
	s.skipTo(seq)
	s.unproven = false
	s.apply(seq, payload)
}

func (s *sequencer) stopRepair() {
	s.repairing, s.waiting, s.waitingBytes = false, nil, 0
}

// restart starts over with another engine, of which nothing is known yet.
func (s *sequencer) restart() {
	s.do(action{kind: restart})
	s.stopRepair()
	s.next, s.floor, s.applied, s.unproven, s.behind = 0, 0, false, false, false
}

// restartByReplay is restart when the replay shows it: what waits is already of
// the new engine.
func (s *sequencer) restartByReplay() {
	waiting, size := s.waiting, s.waitingBytes
	s.restart()
	s.repair(false)
	s.waiting, s.waitingBytes = waiting, size
}
