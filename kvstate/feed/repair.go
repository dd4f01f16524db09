package feed

// What may wait while a repair runs. Beyond, the newest is dropped; the repair
// fills it if it was published before the replay is answered.
const (
	maxWaiting      = 2048
	maxWaitingBytes = 8 << 20
)

// A repair is given up after maxVain replays in a row that were cut off and
// brought nothing, and after maxAttempts replays in any case.
const (
	maxVain     = 3
	maxAttempts = 8
)

// wait keeps a live batch until the repair is over.
func (s *sequencer) wait(seq uint64, payload []byte) {
	if n := len(s.waiting); n >= maxWaiting || (n > 0 && s.waitingBytes+len(payload) > maxWaitingBytes) {
		s.dropped[WaitingOverflow]++
		return
	}
	s.waiting = append(s.waiting, numbered{seq, payload})
	s.waitingBytes += len(payload)
}

// repair begins to get what is missing; verify: also the batch before it, to see
// that the engine is the same.
func (s *sequencer) repair(verify bool) {
	s.tries, s.vain = 0, 0
	s.ask(verify)
}

// ask begins an attempt to get what is due, or also the batch before it.
func (s *sequencer) ask(verify bool) {
	from := s.next
	if verify {
		from--
	}
	s.askFrom(from, verify)
}

func (s *sequencer) askFrom(from uint64, verify bool) {
	s.repairing, s.verify, s.silent, s.broken = true, verify, true, false
	s.unseen, s.same = false, false
	s.start, s.asked = from, s.next
	s.attempt++
	s.tries++
	s.do(action{kind: replay, seq: s.start, attempt: s.attempt, tries: s.tries})
}

// settle ends a repair after a complete answer: what waited is applied. A gap
// before one of them, or after the last, is asked for, unless that is what was
// just asked in vain.
func (s *sequencer) settle() {
	s.repairing, s.unproven = false, false
	waiting := s.waiting
	s.waiting, s.waitingBytes = nil, 0
	for i, w := range waiting {
		if w.seq > s.next && s.askable() {
			s.ask(false)
			for _, w := range waiting[i:] {
				s.wait(w.seq, w.payload)
			}
			return
		}
		s.late(w)
	}
	if s.unproven = s.tailLost(); s.unproven && s.askable() {
		s.ask(false)
	}
}

// askable reports whether one more replay may bring what the last one did not:
// there was progress or news, and not too many were asked for.
func (s *sequencer) askable() bool {
	return (s.unseen || s.next > s.asked) && s.tries < maxAttempts
}

// tailLost reports whether live batches were dropped, here for those that waited
// or before, and nothing brought them since. They are not given up as a hole:
// the next live batch shows the gap, and may yet have it repaired. (Nor could
// they: sum has to be that of the batch before next.)
func (s *sequencer) tailLost() bool { return s.unseen || (s.hasLive && s.live >= s.next) }

// surrender ends a repair in vain: what waited is applied, with holes. If
// nothing waited, or what came after it was dropped, it stays unknown whether
// something is missing, and the next live batch begins another repair.
func (s *sequencer) surrender() {
	s.repairing = false
	if s.verify && s.silent && len(s.waiting) > 0 {
		s.unverified(s.next)
	}
	waiting := s.waiting
	s.waiting, s.waitingBytes = nil, 0
	for _, w := range waiting {
		s.unproven = false
		s.late(w)
	}
	s.unproven = s.unproven || s.tailLost()
}

// late applies a batch that waited.
func (s *sequencer) late(w numbered) {
	if w.seq < s.next {
		s.dropped[Duplicate]++
		return
	}
	if s.behind { // and the replay left it so
		s.unverified(w.seq)
	}
	s.skipTo(w.seq)
	s.apply(w.seq, w.payload)
}

// unverified goes on at seq although nobody can tell any more whether it is the
// same engine: a hole, if only in what is known.
func (s *sequencer) unverified(seq uint64) {
	s.do(action{kind: hole, seq: s.next - 1, until: max(seq, s.next)})
	s.next, s.behind = max(seq, s.next), false
}
