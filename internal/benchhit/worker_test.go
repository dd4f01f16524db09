package benchhit

import "time"

const (
	blockSize     = 16
	prefillSpeed  = 8000.0 // tokens a second
	perToken      = 25 * time.Millisecond
	cacheCapacity = 12000 // blocks: 192,000 tokens
)

// worker is a simulated serving process.
type worker struct {
	index   int
	alive   bool
	lives   int // counts its lives: what was begun in an earlier one does not end
	cache   *prefixCache
	queue   []*request    // those that wait for their prompt's turn, and the one whose turn it is
	began   time.Duration // when the turn of the front one began
	decodes map[*request]bool
}

// live returns how many requests the worker has.
func (w *worker) live() int { return len(w.queue) + len(w.decodes) }

// prefill is the time that a prompt takes of which so many blocks are cached.
func prefill(r *request, cached int) time.Duration {
	tokens := max(len(r.prompt)-cached*blockSize, 1)
	return time.Duration(float64(tokens) / prefillSpeed * float64(time.Second))
}

// usable is the part of a prompt's blocks that a cache may serve: the last token
// is computed in any case.
func usable(r *request) []uint64 {
	return r.chain[:min(len(r.chain), (len(r.prompt)-1)/blockSize)]
}

// firstTokenAfter foretells how long r's first token would take here, if nothing
// were evicted meanwhile.
func (w *worker) firstTokenAfter(now time.Duration, r *request) time.Duration {
	var wait time.Duration
	for i, queued := range w.queue {
		wait += prefill(queued, w.cache.matched(usable(queued)))
		if i == 0 {
			wait -= min(now-w.began, wait)
		}
	}
	return wait + prefill(r, w.cache.matched(usable(r)))
}
