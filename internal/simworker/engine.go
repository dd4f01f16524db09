package simworker

import (
	"context"
	"slices"
	"sync"
)

// maxWaiting bounds the requests that wait for blocks on one rank.
const maxWaiting = 4096

// engine is the ranks of a worker: which requests run, which wait, and the
// cache each rank has.
type engine struct {
	blockSize   int
	cacheBlocks int    // of each rank
	seed        string // of the block keys

	mu    sync.Mutex
	ranks []rank // guarded by mu
}

// rank is one data-parallel rank. Guarded by engine.mu.
type rank struct {
	cache   *cache
	host    *hostPool
	journal *journal // nil: nobody publishes; the pointer never changes
	running int
	waiting []*sequence // in order of arrival
	totals  totals
}

// totals are a rank's counters as vLLM has them, in tokens and requests.
type totals struct {
	prefixQueries, prefixHits  uint64
	promptTokens, outputTokens uint64
	stopped, cut, aborted      uint64 // requests by how they finished: stop, length, abort
}

// finish is how a request's generation ended.
type finish uint8

const (
	// finishAbort is a client that left, or a worker that was stopped.
	finishAbort finish = iota
	// finishStop is a reply that ended by itself.
	finishStop
	// finishLength is a reply that reached the request's max_tokens.
	finishLength
)

// String returns OpenAI's finish_reason.
func (f finish) String() string {
	switch f {
	case finishStop:
		return "stop"
	case finishLength:
		return "length"
	}
	return "abort"
}

// sequence is one request inside the engine, from enter to leave.
type sequence struct {
	engine *engine
	rank   int
	prompt int // tokens
	need   int // blocks for the prompt and the whole reply
	chain  chain
	cached int // prompt tokens that need no computing; valid once admitted is closed

	admitted chan struct{} // closed when the sequence runs

	state sequenceState // guarded by engine.mu
	cache *cache        // that of the rank when it was admitted; guarded by engine.mu
	held  holding       // in that cache; guarded by engine.mu
}

type sequenceState uint8

const (
	stateWaiting sequenceState = iota
	stateRunning
	stateLeft
)

// newEngine returns the engine of a valid configuration.
func newEngine(cfg Config) *engine {
	e := &engine{blockSize: cfg.BlockSize, cacheBlocks: cfg.CacheBlocks, seed: cfg.Name, ranks: make([]rank, cfg.Ranks)}
	for i := range e.ranks {
		e.ranks[i] = rank{cache: newCache(cfg.CacheBlocks), host: newHostPool(cfg.HostBlocks)}
		if cfg.Events.journaled() {
			e.ranks[i].journal = newJournal(cfg.Events.Queue)
		}
	}
	return e
}

// enter puts a prompt into the queue of a rank, or of the least busy one if
// ranked is false, and lets it run at once if nobody waits there and its
// blocks are free. It reports false if the queue is full. The caller must have
// checked that prompt and reply fit into a rank's cache, and must call leave.
func (e *engine) enter(prompt []token, reply int, ns namespace, wanted int, ranked bool) (*sequence, bool) {
	s := &sequence{
		engine:   e,
		prompt:   len(prompt),
		need:     (len(prompt) + reply + e.blockSize - 1) / e.blockSize,
		chain:    chain{blockSize: e.blockSize, ns: ns, root: rootKey(e.seed, ns)},
		admitted: make(chan struct{}),
	}
	s.chain.extend(prompt...)

	e.mu.Lock()
	defer e.mu.Unlock()
	s.rank = wanted
	if !ranked {
		s.rank = e.leastBusyLocked()
	}
	r := &e.ranks[s.rank]
	if len(r.waiting) >= maxWaiting {
		return nil, false
	}
	r.waiting = append(r.waiting, s)
	e.admitLocked(r)
	return s, true
}

// leastBusyLocked returns the rank with the fewest requests, the first of
// several.
func (e *engine) leastBusyLocked() int {
	best, least := 0, 0
	for i := range e.ranks {
		n := e.ranks[i].running + len(e.ranks[i].waiting)
		if i == 0 || n < least {
			best, least = i, n
		}
	}
	return best
}

// admitLocked lets waiting sequences run, in order, while their blocks are
// free.
func (e *engine) admitLocked(r *rank) {
	for len(r.waiting) > 0 {
		s := r.waiting[0]
		// The last prompt token is computed even if its block is cached: the
		// first reply token comes out of that computation.
		usable := s.chain.keys[:min(len(s.chain.keys), (s.prompt-1)/e.blockSize)]
		held, ok := r.cache.acquire(usable, s.need)
		if !ok {
			return
		}
		r.journal.removed(r.cache.takeEvicted(), false)
		r.loadLocked(&s.chain, &held, usable)
		r.journal.commit()
		r.waiting[0] = nil
		r.waiting = r.waiting[1:]
		r.running++
		s.held, s.cache, s.state = held, r.cache, stateRunning
		s.cached = len(held.pinned) * e.blockSize
		r.totals.prefixQueries += uint64(s.prompt)
		r.totals.prefixHits += uint64(s.cached)
		close(s.admitted)
	}
}

// wait blocks until the sequence runs or ctx ends.
func (s *sequence) wait(ctx context.Context) error {
	select {
	case <-s.admitted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prefilled says that the prompt is computed: its full blocks can be matched
// from now on.
func (s *sequence) prefilled() {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	r := &s.engine.ranks[s.rank]
	r.totals.promptTokens += uint64(s.prompt)
	r.fillLocked(s)
}

// generated says that one more reply token is out. The KV of a token is
// computed when it becomes input, so the one before it is what may complete a
// block: pass no tokens with the first call, and the previous token after.
func (s *sequence) generated(previous ...token) {
	s.chain.extend(previous...)
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	r := &s.engine.ranks[s.rank]
	r.totals.outputTokens++
	r.fillLocked(s)
}

// leave takes the sequence out of the engine, gives its blocks back and lets
// others run. Only the first call counts.
func (s *sequence) leave(how finish) {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &e.ranks[s.rank]
	switch s.state {
	case stateLeft:
		return
	case stateRunning:
		s.cache.release(&s.held)
		r.running--
	case stateWaiting:
		r.removeWaiting(s)
	}
	s.state = stateLeft
	switch how {
	case finishStop:
		r.totals.stopped++
	case finishLength:
		r.totals.cut++
	case finishAbort:
		r.totals.aborted++
	}
	e.admitLocked(r)
}

func (r *rank) removeWaiting(s *sequence) {
	if i := slices.Index(r.waiting, s); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
}

// rankFigures is what /metrics says about one rank.
type rankFigures struct {
	running, waiting int
	usage            float64 // share of the blocks that running requests hold
	full, host       int     // full blocks in the cache, and in the host pool
	totals           totals
}

// figures returns a consistent reading of every rank.
func (e *engine) figures() []rankFigures {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]rankFigures, len(e.ranks))
	for i := range e.ranks {
		r := &e.ranks[i]
		out[i] = rankFigures{
			running: r.running,
			waiting: len(r.waiting),
			usage:   float64(r.cache.used()) / float64(r.cache.capacity),
			full:    len(r.cache.blocks),
			host:    len(r.host.blocks),
			totals:  r.totals,
		}
	}
	return out
}
