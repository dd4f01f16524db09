package benchhit

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"mooring/kvstate/blockhash"
)

// request is one turn on its way.
type request struct {
	conversation *conversation
	turn         int
	prompt       []uint32
	local, chain []uint64 // its complete blocks: by their own tokens, and by all up to their end
	arrived      time.Duration
	worker       *worker // nil while it waits for one
	done         func()  // what the policy wants to know of its end
}

// newRequest makes the prompt of a conversation's turn: all that was said before,
// and the question.
func newRequest(c *conversation, turn int) *request {
	r := &request{conversation: c, turn: turn}
	r.prompt = append(r.prompt, c.prefix...)
	for _, t := range c.turns[:turn] {
		r.prompt = append(append(r.prompt, t.question...), t.reply...)
	}
	r.extend(c.turns[turn].question)
	return r
}

// extend adds tokens to the prompt.
func (r *request) extend(tokens []uint32) {
	r.prompt = append(r.prompt, tokens...)
	r.local = blockhash.Append(nil, r.prompt, blockSize, blockhash.Seed("", ""))
	r.chain = blockhash.Sequence(nil, r.local)
}

// policy chooses workers.
type policy interface {
	// choose returns one of the live workers, of which there is at least one, and
	// what to call when the request has ended there.
	choose(now time.Duration, r *request, live []*worker) (*worker, func())
	// stored tells of a change in a worker's cache.
	stored(w *worker, c change, r *request)
	// fleet tells that a worker was lost, or is there (anew, and empty).
	fleet(w *worker)
}

// result is what one run has measured.
type result struct {
	all, first measured // over all turns, and over those that open a conversation
	moved      int      // turns that did not go where the one before went
}

// add notes a turn of which so many blocks were cached.
func (res *result) add(r *request, cached int, firstToken time.Duration) {
	res.all.add(len(r.prompt), cached*blockSize, firstToken)
	if r.turn == 0 {
		res.first.add(len(r.prompt), cached*blockSize, firstToken)
	}
}

// measured is what was seen of some turns.
type measured struct {
	prompted, cached int // tokens
	firstTokens      []time.Duration
}

func (m *measured) add(prompted, cached int, firstToken time.Duration) {
	m.prompted += prompted
	m.cached += cached
	m.firstTokens = append(m.firstTokens, firstToken)
}

// hitShare is the share of the prompts' tokens that came from cache.
func (m *measured) hitShare() float64 { return float64(m.cached) / float64(m.prompted) }

// quantile returns a quantile of the time to the first token.
func (m *measured) quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(m.firstTokens))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// simulation is one run in virtual time.
type simulation struct {
	now     time.Duration
	events  eventHeap
	order   int
	workers []*worker
	policy  policy
	waiting []*request // for any worker to live
	last    map[*conversation]*worker
	result  result
}

const replacedAfter = 30 * time.Second

// simulate sends a trace through a policy, inside a synctest bubble. With lose,
// worker 0 is lost when half of the conversations have arrived.
func simulate(trace []*conversation, workers int, lose bool, p policy) *result {
	s := &simulation{policy: p, last: make(map[*conversation]*worker)}
	for i := range workers {
		w := &worker{index: i}
		s.workers = append(s.workers, w)
		s.appear(w)
	}
	for _, c := range trace {
		s.at(c.starts, func() { s.ask(c, 0) })
	}
	if lose {
		s.at(trace[len(trace)/2].starts, func() { s.lose(s.workers[0]) })
	}
	for len(s.events) > 0 {
		e := heap.Pop(&s.events).(event)
		time.Sleep(e.at - s.now) // in the bubble's time, which the router sees too
		s.now = e.at
		e.do()
	}
	return &s.result
}

func (s *simulation) appear(w *worker) {
	w.alive, w.lives, w.queue, w.decodes = true, w.lives+1, nil, make(map[*request]bool)
	w.cache = newPrefixCache(cacheCapacity, nil)
	s.policy.fleet(w)
}

func (s *simulation) lose(w *worker) {
	w.alive = false
	orphans := slices.Clone(w.queue)
	for r := range w.decodes {
		orphans = append(orphans, r)
	}
	slices.SortFunc(orphans, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.arrived, b.arrived), cmp.Compare(a.conversation.id, b.conversation.id))
	})
	w.queue, w.decodes = nil, nil
	s.policy.fleet(w)
	for _, r := range orphans {
		r.done()
		r.worker = nil
		s.send(r)
	}
	s.at(s.now+replacedAfter, func() {
		s.appear(w)
		waiting := s.waiting
		s.waiting = nil
		for _, r := range waiting {
			s.send(r)
		}
	})
}

// ask sends a conversation's next question.
func (s *simulation) ask(c *conversation, turn int) {
	r := newRequest(c, turn)
	r.arrived = s.now
	s.send(r)
}

func (s *simulation) send(r *request) {
	live := slices.DeleteFunc(slices.Clone(s.workers), func(w *worker) bool { return !w.alive })
	if len(live) == 0 {
		s.waiting = append(s.waiting, r)
		return
	}
	w, done := s.policy.choose(s.now, r, live)
	r.worker, r.done = w, done
	if before, ok := s.last[r.conversation]; ok && before != w {
		s.result.moved++
	}
	s.last[r.conversation] = w
	w.queue = append(w.queue, r)
	if len(w.queue) == 1 {
		s.begin(w)
	}
}

// begin computes the prompt at the front of a worker's queue.
func (s *simulation) begin(w *worker) {
	r := w.queue[0]
	w.began = s.now
	cached := w.cache.matched(usable(r))
	s.during(w, s.now+prefill(r, cached), func() {
		s.result.add(r, cached, s.now-r.arrived)
		s.keep(w, r, r.chain)
		w.queue = w.queue[1:]
		w.decodes[r] = true
		s.decode(w, r)
		if len(w.queue) > 0 {
			s.begin(w)
		}
	})
}

func (s *simulation) decode(w *worker, r *request) {
	t := r.conversation.turns[r.turn]
	s.during(w, s.now+time.Duration(len(t.reply))*perToken, func() {
		delete(w.decodes, r)
		r.extend(t.reply)
		s.keep(w, r, r.chain)
		r.done()
		if next := r.turn + 1; next < len(r.conversation.turns) {
			s.at(s.now+t.pause, func() { s.ask(r.conversation, next) })
		}
	})
}

// keep puts r's blocks into w's cache.
func (s *simulation) keep(w *worker, r *request, chain []uint64) {
	w.cache.changed = func(c change) { s.policy.stored(w, c, r) }
	w.cache.use(chain)
}

// at does something at a later time; what is due at one time happens in the order
// in which it was asked for.
func (s *simulation) at(t time.Duration, do func()) {
	s.order++
	heap.Push(&s.events, event{t, s.order, do})
}

// during does something at a later time, unless w is lost before.
func (s *simulation) during(w *worker, t time.Duration, do func()) {
	life := w.lives
	s.at(t, func() {
		if w.alive && w.lives == life {
			do()
		}
	})
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

// eventHeap implements heap.Interface, the earliest first.
type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), cmp.Compare(h[i].order, h[j].order)) < 0
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = event{}
	*h = (*h)[:last]
	return e
}
