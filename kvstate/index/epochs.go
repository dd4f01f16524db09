package index

import (
	"sync/atomic"
)

// epochs tells when no look-up can still be at a node that was taken out of the
// tree, without look-ups waiting for anything.
//
// A look-up counts itself in under the parity of the epoch it finds. The epoch
// moves on from e only when nobody is counted under the parity of e-1, which is
// that of e+1. So what was taken out in epoch e is out of reach once the epoch is
// e+2: whoever could have seen it was counted before that under one parity or the
// other, and each of the two moves waited for one of them. A look-up that counts
// itself under an epoch that has passed by then is harmless: it only makes a move
// wait which need not.
type epochs struct {
	now   atomic.Uint32
	lanes [lanes]lane
}

// lanes is how many counters there are, so that look-ups seldom share one.
const lanes = 8

type lane struct {
	in [2]atomic.Int32 // look-ups under way, by parity of their epoch
	_  [120]byte       // two cache lines: some machines fetch them in pairs
}

// enter begins a look-up; leave with what it returns ends it.
func (e *epochs) enter(lane uint32) *atomic.Int32 {
	in := &e.lanes[lane%lanes].in[e.now.Load()%2]
	in.Add(1)
	return in
}

// advance moves on to the next epoch if it can. Held: Index.mu.
func (e *epochs) advance() bool {
	next := e.now.Load() + 1
	for i := range e.lanes {
		if e.lanes[i].in[next%2].Load() != 0 {
			return false
		}
	}
	e.now.Store(next)
	return true
}

// limbo is what was taken out in one epoch.
type limbo struct {
	nodes   []uint32
	holders []uint32
	slots   []uint16
}

func (l *limbo) empty() bool { return len(l.nodes)+len(l.holders)+len(l.slots) == 0 }

// limboKept is how long a list stays allocated when it is empty.
const limboKept = 1 << 12

// reclaimLocked gives back what no look-up can reach any more, as far as that can
// be told without waiting. It returns whether limbo is empty.
func (ix *Index) reclaimLocked() bool {
	for range 2 {
		if ix.mu.limbo[0].empty() && ix.mu.limbo[1].empty() {
			return true
		}
		if !ix.epochs.advance() {
			return false
		}
		ix.releaseLocked(&ix.mu.limbo[ix.epochs.now.Load()%2])
	}
	return ix.mu.limbo[0].empty() && ix.mu.limbo[1].empty()
}

// releaseLocked makes what is in l free for use again.
func (ix *Index) releaseLocked(l *limbo) {
	for _, id := range l.nodes {
		ix.nodes.give(id)
	}
	for _, id := range l.holders {
		ix.holders.give(id)
	}
	ix.mu.freeSlots = append(ix.mu.freeSlots, l.slots...)
	if cap(l.nodes)+cap(l.holders) > 2*limboKept {
		*l = limbo{}
		return
	}
	l.nodes, l.holders, l.slots = l.nodes[:0], l.holders[:0], l.slots[:0]
}

// retiring returns where to put what is taken out now.
func (ix *Index) retiringLocked() *limbo { return &ix.mu.limbo[ix.epochs.now.Load()%2] }
