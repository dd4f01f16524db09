package benchhit

import "time"

// deaf is the part of a policy that looks at no cache and at no lost worker.
type deaf struct{}

func (deaf) stored(*worker, change, *request) {}
func (deaf) fleet(*worker)                    {}

func nothing() {}

// roundRobin takes the live workers in turn.
type roundRobin struct {
	deaf
	next int
}

func (p *roundRobin) choose(_ time.Duration, _ *request, live []*worker) (*worker, func()) {
	p.next++
	return live[p.next%len(live)], nothing
}

// leastRequests takes the worker with the fewest requests, the first of several
// behind the one that was taken last.
type leastRequests struct {
	deaf
	next int
}

func (p *leastRequests) choose(_ time.Duration, _ *request, live []*worker) (*worker, func()) {
	p.next++
	return fewest(live, p.next), nothing
}

func fewest(live []*worker, from int) *worker {
	best := live[from%len(live)]
	for i := range live {
		if w := live[(from+i)%len(live)]; w.live() < best.live() {
			best = w
		}
	}
	return best
}

// sticky chooses as leastRequests does, once for each conversation and again when
// its worker is lost.
type sticky struct {
	leastRequests
	bound map[*conversation]*worker
}

func (p *sticky) choose(now time.Duration, r *request, live []*worker) (*worker, func()) {
	w, ok := p.bound[r.conversation]
	if !ok {
		w, _ = p.leastRequests.choose(now, r, live)
		p.bound[r.conversation] = w
	}
	return w, nothing
}

func (p *sticky) fleet(lost *worker) {
	for c, w := range p.bound {
		if w == lost {
			delete(p.bound, c)
		}
	}
}

// allKnowing looks into every worker's queue and cache and takes, for every turn,
// the one with the earliest first token. It is greedy: what a choice does to later
// requests it does not know.
type allKnowing struct {
	deaf
	next int
}

func (p *allKnowing) choose(now time.Duration, r *request, live []*worker) (*worker, func()) {
	p.next++
	best := live[p.next%len(live)]
	least := best.firstTokenAfter(now, r)
	for i := range live {
		w := live[(p.next+i)%len(live)]
		if after := w.firstTokenAfter(now, r); after < least {
			best, least = w, after
		}
	}
	return best, nothing
}
