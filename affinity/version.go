package affinity

import (
	"math"
	"sync/atomic"
	"time"
)

// version orders the bindings of one session: by sequence, then by writer. The
// zero version is below all that are made.
type version struct {
	sequence uint64
	writer   uint64
}

// sequencer makes the sequences of one replica: each above all it made before,
// but for those of sessions far ahead, and at least the wall clock in nanoseconds,
// so that a restarted replica goes on above what it made in its earlier life. Safe
// for concurrent use.
type sequencer struct {
	last atomic.Uint64
}

// next returns a sequence above the given one, or false if there is none left. A
// given one that is ahead of the wall clock by more than lead takes only this
// sequence with it: other sessions' need not be above it, and might be refused.
func (s *sequencer) next(wall time.Time, lead time.Duration, above uint64) (uint64, bool) {
	start, limit := sequenceAt(wall), sequenceAt(wall.Add(lead))
	for {
		last := s.last.Load()
		if max(last, above) == math.MaxUint64 {
			return 0, false
		}
		own := max(start, last+1)
		made := max(own, above+1)
		if s.last.CompareAndSwap(last, max(own, min(made, limit))) {
			return made, true
		}
	}
}

// sequenceAt returns the lowest sequence that is made at a time.
func sequenceAt(wall time.Time) uint64 { return uint64(max(wall.UnixNano(), 0)) }
