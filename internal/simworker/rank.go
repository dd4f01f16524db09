package simworker

import "fmt"

// loadLocked fills blocks of an admitted sequence from the host pool: those
// that follow what the cache has of usable.
func (r *rank) loadLocked(c *chain, held *holding, usable []blockKey) {
	n := len(held.pinned)
	n += r.host.load(usable[n:])
	r.journal.stored(c, r.cache.fill(held, usable[:n]), false)
}

// fillLocked says that the full blocks of a running sequence are computed. It
// copies the new ones to the host pool.
func (r *rank) fillLocked(s *sequence) {
	added := s.cache.fill(&s.held, s.chain.keys)
	if s.cache != r.cache {
		return // of an engine before this one: nobody can use what it computes
	}
	r.journal.stored(&s.chain, added, false)
	for _, part := range added {
		copied, evicted := r.host.store(s.chain.keys, part)
		r.journal.stored(&s.chain, copied, true)
		r.journal.removed(evicted, true)
	}
	r.journal.commit()
}

// reset empties the cache of every rank, and the host pools too if asked. As in
// vLLM a rank of which requests hold blocks keeps them, which is an error.
func (e *engine) reset(host bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	busy := 0
	for i := range e.ranks {
		r := &e.ranks[i]
		if r.cache.used() > 0 {
			busy++
			continue
		}
		r.cache = newCache(e.cacheBlocks)
		r.journal.cleared(false)
		if host && r.host.capacity > 0 {
			r.host.clear()
			r.journal.cleared(true)
		}
		r.journal.commit()
	}
	if busy > 0 {
		return fmt.Errorf("%d of %d ranks are not reset: requests hold blocks there", busy, len(e.ranks))
	}
	return nil
}

// restart replaces the engine process of a rank: its cache is a new one and its
// batches count from 0 again. The host pool stays. Running requests finish in
// the old cache, which nobody matches any more.
func (e *engine) restart(rank int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &e.ranks[rank]
	r.cache = newCache(e.cacheBlocks)
	r.journal.restart()
	e.admitLocked(r)
}

// lost returns how many batches of a rank found the queue full.
func (e *engine) lost(rank int) uint64 {
	if j := e.ranks[rank].journal; j != nil {
		return j.dropped.Load()
	}
	return 0
}
