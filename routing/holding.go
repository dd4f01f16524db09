package routing

import (
	"sort"
	"time"
)

// holding is this replica's live requests on one target, and what their prompts hold
// there where these are known. Guarded by load.mu.
type holding struct {
	live    int              // requests, with known prompts or without
	blocks  map[uint64]int32 // nil before the first prompt; complete blocks by their sequence hash, with how many prompts have each
	partial int              // incomplete blocks at the end of prompts, which nobody shares
	queue   []*held          // by the time at which they count as computed
	prefill int              // prompt work: the sum of prefill over the queue
	sight   sight
}

// held is one prompt in a holding. Guarded by load.mu but for sequence and
// partial, which never change.
type held struct {
	sequence []uint64
	partial  int
	prefill  int       // blocks still to be computed; 0 once they are
	until    time.Time // when they count as computed
}

// prefillTime is how long a prompt counts as prompt work if nobody tells when the
// response begins, as where Envoy's access log only tells when it has ended.
const prefillTime = 5 * time.Second

// take adds a prompt of which overlap is there already.
func (h *holding) take(p *prompt, overlap Overlap, now time.Time) *held {
	e := &held{sequence: p.sequence, partial: p.blocks - len(p.sequence), prefill: max(0, p.blocks-overlap.Blocks()), until: now.Add(prefillTime)}
	if h.blocks == nil {
		h.blocks = make(map[uint64]int32)
	}
	for _, block := range e.sequence {
		h.blocks[block]++
	}
	h.partial += e.partial
	h.prefill += e.prefill
	h.queue = append(h.queue, e)
	return e
}

// drop takes e out. It must be in.
func (h *holding) drop(e *held) {
	h.computed(e)
	for _, block := range e.sequence {
		if n := h.blocks[block]; n > 1 {
			h.blocks[block] = n - 1
		} else {
			delete(h.blocks, block)
		}
	}
	h.partial -= e.partial
}

// computed ends e's prompt work, if it has any left.
func (h *holding) computed(e *held) {
	h.prefill -= e.prefill
	e.prefill = 0
}

// expire ends the prompt work of those whose time is over.
func (h *holding) expire(now time.Time) {
	for len(h.queue) > 0 && (h.queue[0].prefill == 0 || !now.Before(h.queue[0].until)) {
		h.computed(h.queue[0])
		h.queue[0] = nil
		h.queue = h.queue[1:]
	}
}

// proven returns how much of the prompt work in h is done already, as p shows of
// which the target holds so many blocks: where a live prompt begins like p, the
// engine has computed what it holds of that. Of a nil holding it is none.
func (h *holding) proven(p *prompt, there int) (done int) {
	if h == nil || h.prefill == 0 || there == 0 {
		return 0
	}
	for _, e := range h.queue {
		if e.prefill == 0 {
			continue
		}
		had := len(e.sequence) + e.partial - e.prefill // what was computed before it came
		if had < min(there, len(e.sequence), len(p.sequence)) && e.sequence[had] == p.sequence[had] {
			done += min(there, common(e.sequence, p.sequence)) - had
		}
	}
	return done
}

// common returns how many blocks two prompts share. A block's sequence hash stands
// for all before it too.
func common(a, b []uint64) int {
	return sort.Search(min(len(a), len(b)), func(i int) bool { return a[i] != b[i] })
}

// requests returns the live requests; of a nil holding there are none.
func (h *holding) requests() int {
	if h == nil {
		return 0
	}
	return h.live
}

// inUse returns the blocks that the prompts hold, each once.
func (h *holding) inUse() int { return len(h.blocks) + h.partial }

// shared returns how many blocks of p a live prompt holds already, from its
// beginning on. A block's sequence hash stands for all before it too, so that
// those held are always the first ones. Of a nil holding it is none.
func (h *holding) shared(p *prompt) int {
	if h == nil || len(h.blocks) == 0 {
		return 0
	}
	low, high := 0, len(p.sequence)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if _, held := h.blocks[p.sequence[middle]]; held {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}
