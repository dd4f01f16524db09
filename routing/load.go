package routing

import (
	"math"
	"sync"
	"time"

	"mooring/internal/fleet"
)

// load counts this replica's live requests per target, and the prompts of those
// whose blocks are known. A choice and its count are one step, so that many
// choices at once never all see the same idle worker.
type load struct {
	mu struct {
		sync.Mutex
		work map[fleet.Target]*holding // of targets that were chosen, or that gave figures
		bare int                       // live requests that name no rank
		most int                       // at how many targets idle ones are forgotten
	}
}

func newLoad() *load {
	l := &load{}
	l.mu.work, l.mu.most = make(map[fleet.Target]*holding), maxHoldings
	return l
}

// add counts one more live request on t.
func (l *load) add(t fleet.Target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holdingLocked(t)
	l.countLocked(t, h, 1)
	l.raiseLocked(t, h)
}

// done takes back what add or choose counted.
func (l *load) done(t fleet.Target, held *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.mu.work[t] // there as long as it has a live request
	l.countLocked(t, h, -1)
	if held != nil {
		h.drop(held)
	}
}

// countLocked counts n more live requests on t, whose holding is h.
func (l *load) countLocked(t fleet.Target, h *holding, n int) {
	h.live += n
	if !t.Ranked {
		l.mu.bare += n
	}
}

// computed says that held's prompt has been computed: it is prompt work no more.
func (l *load) computed(t fleet.Target, held *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.mu.work[t]; h != nil {
		h.computed(held)
	}
}

// of returns the live requests of t.
func (l *load) of(t fleet.Target) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.work[t].requests()
}

// choose weighs the rows, picks one and counts a live request with this prompt
// on it, in one step. It returns the winner's index, or -1 if all are full, and
// what done needs.
func (l *load) choose(c *choice) (winner int, counted *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if winner = l.weighLocked(c, true); winner < 0 {
		return winner, nil
	}
	best := &c.rows[winner]
	h := l.holdingLocked(best.target)
	l.countLocked(best.target, h, 1)
	if c.prompt.known() {
		counted = h.take(&c.prompt, best.overlap, c.now)
	}
	l.raiseLocked(best.target, h)
	return winner, counted
}

// preview is choose without counting or remembering anything.
func (l *load) preview(c *choice) (winner int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.weighLocked(c, false)
}

// weighLocked fills in the rows' work and cost and picks one. It may remember what
// figures it met.
func (l *load) weighLocked(c *choice, remember bool) int {
	idlest := math.Inf(1)
	for i := range c.rows {
		row := &c.rows[i]
		h := l.mu.work[row.target]
		if remember && row.fresh > 0 {
			h = l.sightLocked(row, h)
		}
		row.work = l.standingLocked(row, h, c.now)
		if c.prompt.known() {
			row.work.Prefill -= float64(h.proven(&c.prompt, row.overlap.Blocks()))
		}
		row.full = c.limits != nil && c.limits.exceeded(row.work, row.figures, row.fresh)
		idlest = min(idlest, row.work.Prefill)
	}
	if c.prompt.known() {
		for i := range c.rows {
			row := &c.rows[i]
			row.standing = c.weights.cost(0, 0, Overlap{}, row.work).Total
			// Of what others have in use, this prompt's blocks that are there may be part:
			// a prefix that is asked for here is asked for elsewhere. They would be in use
			// once, so that they are not taken for a burden.
			shared := max(float64(l.mu.work[row.target].shared(&c.prompt)), min(row.others, float64(row.overlap.Blocks())))
			row.work.Decode += float64(c.prompt.blocks) - shared
			row.cost = c.weights.cost(c.prompt.blocks, idlest, row.overlap, row.work)
		}
	}
	return pick(c.rows, c.seed, c.prompt.known(), c.temperature)
}

// standingLocked returns what a row's target, whose holding is h, has to do without
// this request, and fills in what of that is others'.
func (l *load) standingLocked(row *row, h *holding, now time.Time) Work {
	own := l.ofRankLocked(row.target, h)
	work := Work{Requests: float64(own)}
	then := sighting{at: row.figures.At, requests: own}
	if h != nil {
		h.expire(now)
		work.Prefill = float64(h.prefill)
		work.Decode = float64(h.inUse())
		then.blocks = h.inUse()
		if h.sight.seen.at.Equal(row.figures.At) {
			then = h.sight.seen
		}
	}
	if row.fresh > 0 {
		work.Requests += row.fresh * float64(max(0, row.figures.Running+row.figures.Waiting-then.requests))
		row.others = row.fresh * max(0, row.figures.KVUse*float64(row.figures.KVBlocks)-float64(then.blocks))
		work.Decode += row.others
	}
	return work
}

// ofRankLocked counts what runs on a rank: its own requests and those that were
// sent to its worker without naming a rank, any of which may run here.
func (l *load) ofRankLocked(t fleet.Target, h *holding) int {
	n := h.requests()
	if l.mu.bare > 0 {
		n += l.mu.work[fleet.WorkerOnly(t.Worker)].requests()
	}
	return n
}

// maxHoldings is from how many targets on idle ones are forgotten, at the earliest.
// With it, workers that come and go for ever leave nothing behind.
const maxHoldings = 4096

func (l *load) holdingLocked(t fleet.Target) *holding {
	h := l.mu.work[t]
	if h != nil {
		return h
	}
	if len(l.mu.work) >= l.mu.most {
		for other, h := range l.mu.work {
			if h.live == 0 {
				delete(l.mu.work, other)
			}
		}
		l.mu.most = max(maxHoldings, 2*len(l.mu.work)) // not for each of very many
	}
	h = new(holding)
	l.mu.work[t] = h
	return h
}
