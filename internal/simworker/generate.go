package simworker

import (
	"context"
	"time"
)

// generation is what a completion request asks the engine for.
type generation struct {
	prompt   []token
	adapter  string
	salt     string
	tokens   int    // how many to generate
	finishes finish // how it ends if nothing comes between
}

// timings are what the latency histograms observe about one request.
type timings struct {
	firstToken time.Duration
	perToken   time.Duration // mean; zero for a single token
	total      time.Duration
}

// run waits for the sequence's turn and generates its reply, calling emit with
// every token when its time has come. It returns with the sequence gone from
// the engine, and with an error if ctx ended or emit returned one.
func (w *Worker) run(ctx context.Context, s *sequence, g *generation, emit func(token) error) error {
	how := finishAbort
	defer func() { s.leave(how) }()
	begin := time.Now()
	if err := s.wait(ctx); err != nil {
		return err
	}
	next := time.Now().Add(w.firstTokenAfter(s.prompt, s.cached))
	if err := sleepUntil(ctx, next); err != nil {
		return err
	}
	s.prefilled()
	firstToken := time.Since(begin)

	words := replyTo(g.prompt)
	var previous []token
	for i := range g.tokens {
		if i > 0 {
			next = next.Add(w.cfg.PerToken)
			if err := sleepUntil(ctx, next); err != nil {
				return err
			}
		}
		s.generated(previous...)
		id := words.next()
		if err := emit(id); err != nil {
			return err
		}
		previous = append(previous[:0], id)
	}
	how = g.finishes
	t := timings{firstToken: firstToken, total: time.Since(begin)}
	if g.tokens > 1 {
		t.perToken = (t.total - t.firstToken) / time.Duration(g.tokens-1)
	}
	w.metrics.observe(s.rank, t)
	return nil
}

// firstTokenAfter is the time that a prompt takes until its first token: the
// configured one for a prompt with nothing cached, and for another the share
// that is not cached, at least a tenth.
func (w *Worker) firstTokenAfter(prompt, cached int) time.Duration {
	share := max(float64(prompt-cached)/float64(prompt), 0.1)
	return time.Duration(float64(w.cfg.FirstToken) * share)
}

// sleepUntil returns at t, or when ctx ends, with its error. Deadlines instead
// of durations keep the rate of tokens while the writing of each takes time.
func sleepUntil(ctx context.Context, t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
