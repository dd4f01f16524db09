package routing

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"mooring/internal/fleet"
)

// Explanation says what Route would do with a request now, and why. It is made of
// the same steps as a decision, and nothing comes of it: nothing is bound or
// counted, although a tokenizer may be asked, for a bound session too.
type Explanation struct {
	Reason    Reason
	Refused   *Error       // set if the request would be refused; Target is zero then
	Target    fleet.Target // where it would go
	Address   string
	Partition fleet.Partition // its Model is "" where it is not known
	Session   string          // what it would be bound under; "" for none
	Why       string          // why the target wins, in a sentence

	Prompt     PromptInfo
	Candidates []Candidate // all that the choice would be among, the winner included, as the view orders them
}

// PromptInfo says what is known of a request's prompt.
type PromptInfo struct {
	Source    string // where its tokens came from: prompt, token_data or tokenizer; "" if they are not known
	Problem   string // why they are not known; "" if they are
	Tokens    int
	Blocks    int // an incomplete one at the end included
	BlockSize int // tokens in a block; 0 if the partition has no KV state
}

// Candidate is one target of a choice with all that it was judged by.
type Candidate struct {
	Target     fleet.Target
	Address    string
	Overlap    Overlap
	Work       Work
	Cost       Cost // zero where the prompt is not known
	Full       bool // over its limits
	Figures    Figures
	HasFigures bool
	Freshness  float64 // 0 to 1: what Figures count
}

// Explain says what Route would do with req, changing nothing. ctx bounds the
// call of a tokenizer. A session that another request is choosing for at this
// moment is explained as if it were new, and one that would have to wait for its
// worker as if it would move. The table's being full is not seen.
func (r *Router) Explain(ctx context.Context, req *Request) *Explanation {
	e := &Explanation{Session: req.Session}
	view := r.live.View()
	p, known, err := r.partition(view, req)
	e.Partition = p
	if err == nil {
		err = checkExplicit(view, p, known, req)
	}
	if err != nil {
		return e.refuse(err)
	}
	if !known {
		e.Session, e.Reason = "", NoModel
		return r.explainChoice(ctx, e, wish{req: req, partition: p, group: req.Group}, fleet.Target{})
	}
	w, bound, err := r.explainSession(view, e, req)
	if err != nil {
		return e.refuse(err)
	}
	return r.explainChoice(ctx, e, w, bound)
}

// explainSession finds out what a request whose partition is known wants, and
// where its session is bound; zero if it is not.
func (r *Router) explainSession(view *fleet.View, e *Explanation, req *Request) (w wish, bound fleet.Target, err error) {
	p := e.Partition
	table, ok := r.sessions.Table(p)
	if req.Session == "" || !ok {
		reason := NoSession
		if req.Session != "" {
			reason = TableFull
		}
		w, e.Reason, err = looseWish(view, p, req, reason)
		return w, bound, err
	}
	bound, isBound, err := table.Query(req.Session, req.Explicit)
	switch {
	case err != nil:
		return w, bound, err
	case isBound && !allowed(view, req, bound):
		return w, bound, outsideSubset()
	case isBound:
		e.Reason = Bound
		return wish{req: req, partition: p, byPrompt: true}, bound, nil
	}
	reason := New
	if old, found := table.Lookup(req.Session); found && !old.Schedulable {
		reason = Rebound
	}
	w, e.Reason = sessionWish(p, req, reason)
	return w, fleet.Target{}, nil
}

// explainChoice weighs the candidates, and says who wins if nobody is bound.
func (r *Router) explainChoice(ctx context.Context, e *Explanation, w wish, bound fleet.Target) *Explanation {
	whose := "session"
	if w.req.Session == "" {
		whose = "request"
	}
	if w.key = cmp.Or(w.req.Session, w.req.ID); w.key == "" { // the number that the next such request gets
		w.key = strconv.FormatUint(r.unnamed.Load()+1, 10)
	}
	c := newChoice()
	defer c.free()
	view, err := r.survey(ctx, &w, c)
	if err != nil && bound.IsZero() {
		return e.refuse(err)
	}
	if view == nil {
		view = r.live.View()
	}
	winner := r.load.preview(c)
	if c.blind && e.Reason == New {
		e.Reason = NoTokens
	}
	e.describe(view, c)
	if where, ok := r.residency(view, w.partition); ok {
		e.Prompt.BlockSize = where.blockSize
	}
	switch {
	case !bound.IsZero():
		e.settle(view, bound, "the session is bound to it: no choice is made")
	case winner < 0:
		return e.refuse(overloaded())
	case !w.target.IsZero():
		e.settle(view, c.rows[winner].target, "the request names it")
	default:
		e.settle(view, c.rows[winner].target, c.why(winner, whose))
	}
	return e
}

func (e *Explanation) settle(view *fleet.View, t fleet.Target, why string) {
	e.Target, e.Why = t, why
	if w, ok := view.Worker(t.Worker); ok {
		e.Address = w.Address
	}
}

func (e *Explanation) refuse(err error) *Explanation {
	e.Refused = refusal(err)
	e.Reason, e.Why = e.Refused.Reason, e.Refused.Message
	return e
}

func (e *Explanation) describe(view *fleet.View, c *choice) {
	e.Prompt = PromptInfo{Source: c.prompt.source, Problem: c.prompt.problem, Tokens: c.prompt.tokens, Blocks: c.prompt.blocks}
	e.Candidates = make([]Candidate, len(c.rows))
	for i := range c.rows {
		row := &c.rows[i]
		e.Candidates[i] = Candidate{
			Target: row.target, Overlap: row.overlap, Work: row.work, Cost: row.cost, Full: row.full,
			Figures: row.figures, HasFigures: !row.figures.At.IsZero(), Freshness: row.fresh,
		}
		if w, ok := view.Worker(row.target.Worker); ok {
			e.Candidates[i].Address = w.Address
		}
	}
}

// why says in a sentence why a row wins. Ties break by the hash of whose.
func (c *choice) why(winner int, whose string) string {
	best, others, tied := &c.rows[winner], 0, 0
	limit := tieLimit(c.rows)
	for i := range c.rows {
		row := &c.rows[i]
		if row.full || i == winner {
			continue
		}
		others++
		if c.prompt.known() && row.cost.Total <= limit || !c.prompt.known() && row.work.Requests == best.work.Requests {
			tied++
		}
	}
	switch {
	case others == 0:
		return "it is the only one that can take the request"
	case !c.prompt.known() && tied > 0:
		return fmt.Sprintf("by load alone, it and %d more have the fewest requests, %.4g, and the hash of the %s prefers it", tied, best.work.Requests, whose)
	case !c.prompt.known():
		return fmt.Sprintf("by load alone, it has the fewest requests, %.4g", best.work.Requests)
	case c.temperature > 0:
		least, _ := costRange(c.rows)
		return fmt.Sprintf("its cost is %.4g and the least is %.4g; at temperature %g the hash of the %s prefers it", best.cost.Total, least, c.temperature, whose)
	case tied > 0:
		return fmt.Sprintf("its cost, %.4g, and %d more are as good as the least, and the hash of the %s prefers it", best.cost.Total, tied, whose)
	default:
		return fmt.Sprintf("its cost, %.4g, is the least of %d", best.cost.Total, others+1)
	}
}
