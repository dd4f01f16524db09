package feed

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/zeebo/xxh3"
)

// The replay address may lead to another engine than the publisher's, or to
// something that is no engine. The live stream is right then: what a replay
// brings is compared with the live batch of its number wherever there are both,
// and as long as live batches only repeat numbers that a replay brought, and
// none was compared, the feed is in doubt. (A replay that ends just before the
// first live number is not found out.)
const (
	// maxBehind is how many live batches may be in doubt, until a replay is asked
	// for one of them.
	maxBehind = 64
	// maxAhead is how far a replay may be ahead of the live stream. That is
	// behind by what waits in queues; an engine's numbers have no such gaps.
	maxAhead = 1 << 20
	// maxSeq is what no engine gets to.
	maxSeq = 1 << 62
)

// foreign takes a look at a replayed batch, and reports whether it is no good.
// One that cannot be the engine's is not applied, nor what follows it. One that
// is not what waits under its number shows that all of the replay is another
// engine's: it is forgotten, and what waits applied without it.
func (s *sequencer) foreign(seq uint64, payload []byte) bool {
	if seq >= maxSeq || (s.hasLive && seq > max(s.next, s.live)+maxAhead) {
		s.dropped[ForeignReplay]++
		s.broken = true
		return true
	}
	i, found := slices.BinarySearchFunc(s.waiting, seq, func(w numbered, seq uint64) int { return cmp.Compare(w.seq, seq) })
	if !found {
		return false
	}
	if s.same = bytes.Equal(s.waiting[i].payload, payload); s.same {
		s.behind = false
		return false
	}
	s.dropped[ForeignReplay]++
	waiting := s.waiting
	s.restart()
	for _, w := range waiting {
		s.late(w)
	}
	s.unproven = s.tailLost()
	return true
}

// known takes a live batch of a number that was applied already, or given up. If
// it is the last of these, it shows whether they were this engine's.
func (s *sequencer) known(seq uint64, payload []byte) {
	last := seq+1 == s.next
	switch {
	case seq+maxAhead < s.next, last && xxh3.Hash(payload) != s.sum:
		s.dropped[ForeignReplay]++
		s.restart()
		s.offer(seq, payload)
		return
	case last:
		s.same, s.behind = true, false
	case !s.same:
		s.doubt(seq, payload)
	}
	s.dropped[Duplicate]++
}

// doubt notes that it is not known whether a live batch is what a replay brought
// under its number. Few are just late; of many, a replay has to bring one again.
func (s *sequencer) doubt(seq uint64, payload []byte) {
	if !s.behind {
		s.behind, s.behinds = true, 0
	}
	if s.behinds++; s.behinds >= maxBehind && !s.repairing {
		s.behinds, s.tries, s.vain = 0, 0, 0
		s.askFrom(seq, false)
		s.wait(seq, payload)
	}
}
