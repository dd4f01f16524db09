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
// and at least the wall clock in nanoseconds, so that a restarted replica goes on
// above what it made in its earlier life. Safe for concurrent use.
type sequencer struct {
	last atomic.Uint64
}

// next returns a sequence above the given one, or false if there is none left.
func (s *sequencer) next(wall time.Time, above uint64) (uint64, bool) {
	start := uint64(max(wall.UnixNano(), 0))
	for {
		last := s.last.Load()
		floor := max(last, above)
		if floor == math.MaxUint64 {
			return 0, false
		}
		made := max(start, floor+1)
		if s.last.CompareAndSwap(last, made) {
			return made, true
		}
	}
}
