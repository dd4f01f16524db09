package routing

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate/index"
)

// choice is one choice among candidates: all that goes into it and, once it is
// weighed, what came out. It belongs to one goroutine.
type choice struct {
	rows   []row
	prompt prompt
	now    time.Time
	blind  bool   // the prompt would matter, and is not known
	seed   uint64 // hash of what the choice is made for

	limits      *Limits // nil: nobody is left out
	weights     *Weights
	temperature float64

	matches index.Matches
}

// choices keeps the slices of choices that are over.
var choices = sync.Pool{New: func() any { return new(choice) }}

func newChoice() *choice { return choices.Get().(*choice) }

// free gives c back. The caller keeps nothing of it but values.
func (c *choice) free() {
	*c = choice{rows: c.rows[:0], prompt: prompt{local: c.prompt.local, eagle: c.prompt.eagle}, matches: c.matches}
	choices.Put(c)
}

// wish is what a choice is made for. Exactly one of target, group and partition
// says who the candidates are, the first that is set.
type wish struct {
	req       *Request
	target    fleet.Target // named by the client: that is no choice, limits do not hold
	group     string       // any partition of it
	partition fleet.Partition
	byPrompt  bool   // whether the prompt is worth knowing
	key       string // what ties break by: see tieKey
}

func (w *wish) candidates(view *fleet.View) []fleet.Target {
	switch {
	case !w.target.IsZero():
		return []fleet.Target{w.target}
	case w.group != "":
		return view.SchedulableInGroup(w.group)
	default:
		return view.Schedulable(w.partition)
	}
}

// picked is a choice that was made and counted.
type picked struct {
	view       *fleet.View // in which target is a candidate
	target     fleet.Target
	candidates int
	overlap    int // blocks of the prompt that it holds
	cost       float64
	held       *held // what the prompt counts as in the load; nil if it is not known
	blind      bool  // the prompt would have mattered, and is not known
}

// choose picks one of the candidates that the gateway allows and counts the
// request on it.
func (r *Router) choose(ctx context.Context, w wish) (picked, error) {
	w.key = r.tieKey(w.req)
	c := newChoice()
	defer c.free()
	view, err := r.survey(ctx, &w, c)
	if err != nil {
		return picked{}, err
	}
	winner, held := r.load.choose(c)
	if winner < 0 {
		return picked{}, overloaded()
	}
	best := &c.rows[winner]
	if c.blind || c.prompt.known() {
		r.metrics.chose(&c.prompt, best.overlap.Blocks())
	}
	return picked{
		view: view, target: best.target, candidates: len(c.rows), overlap: best.overlap.Blocks(), cost: best.cost.Total, held: held, blind: c.blind,
	}, nil
}

// survey fills c with the candidates and what is known of them, except their
// load, and returns the view that they are from.
func (r *Router) survey(ctx context.Context, w *wish, c *choice) (*fleet.View, error) {
	view := r.live.View()
	candidates := w.candidates(view)
	if len(candidates) == 0 {
		return nil, noCandidates()
	}
	where := r.surveyPrompt(ctx, view, w, c)
	if latest := r.live.View(); latest != view { // reading the prompt may have taken a while
		if view, candidates = latest, w.candidates(latest); len(candidates) == 0 {
			return nil, noCandidates()
		}
	}
	if c.line(view, w.req, candidates); len(c.rows) == 0 {
		return nil, &Error{Kind: Unavailable, Reason: Subset, Message: "no worker of the gateway's subset can take this request"}
	}
	c.seed, c.weights, c.temperature = hashString(w.key), &r.cfg.Weights, r.cfg.Temperature
	if w.target.IsZero() {
		c.limits = &r.cfg.Limits
	}
	r.askFigures(c)
	if c.prompt.known() {
		c.overlay(where)
	}
	return view, nil
}

// line makes a row of each candidate that the gateway allows.
func (c *choice) line(view *fleet.View, req *Request, candidates []fleet.Target) {
	c.rows = slices.Grow(c.rows[:0], len(candidates))[:len(candidates)]
	clear(c.rows) // by far cheaper than to copy an empty row to each
	n := 0
	for _, t := range candidates {
		if allowed(view, req, t) {
			c.rows[n].target = t
			n++
		}
	}
	c.rows = c.rows[:n]
}

// surveyPrompt reads the prompt if it matters, and returns what it is looked up in.
func (r *Router) surveyPrompt(ctx context.Context, view *fleet.View, w *wish, c *choice) residency {
	if !w.byPrompt {
		c.prompt.problem = problemNoChoice
		return residency{}
	}
	where, ok := r.residency(view, w.partition)
	if !ok {
		c.prompt.problem = problemUnasked
		return residency{}
	}
	r.readPrompt(ctx, view, w, where, &c.prompt)
	c.blind = !c.prompt.known()
	return where
}

// askFigures fills in what the candidates said of their load, and when that counts.
func (r *Router) askFigures(c *choice) {
	c.now = time.Now()
	if r.cfg.Figures == nil {
		return
	}
	for i := range c.rows {
		row := &c.rows[i]
		if f, ok := r.cfg.Figures(row.target); ok {
			row.figures, row.fresh = f, freshness(c.now.Sub(f.At))
		}
	}
}

// tieKey is what ties break by: the session, else the request's id, else a number.
func (r *Router) tieKey(req *Request) string {
	switch {
	case req.Session != "":
		return req.Session
	case req.ID != "":
		return req.ID
	default:
		return strconv.FormatUint(r.unnamed.Add(1), 10)
	}
}

func noCandidates() *Error { return unavailable("no worker can take this request now") }

func overloaded() *Error {
	return &Error{Kind: Busy, Reason: Overloaded, Message: "all workers that could take this request are at their limits", RetryAfter: retryAfter}
}
