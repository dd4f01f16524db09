package simworker

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// usage is OpenAI's account of tokens.
type usage struct {
	PromptTokens     int          `json:"prompt_tokens"`
	TotalTokens      int          `json:"total_tokens"`
	CompletionTokens int          `json:"completion_tokens"`
	Details          usageDetails `json:"prompt_tokens_details"`
}

type usageDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// chat answers POST /v1/chat/completions.
func (w *Worker) chat(rw http.ResponseWriter, r *http.Request) error {
	body, err := w.readBody(rw, r)
	if err != nil {
		return err
	}
	c, err := decodeChat(body, w.cfg.maxModelLen())
	if err != nil {
		return err
	}
	return w.complete(rw, r, c, chatShape)
}

// completions answers POST /v1/completions.
func (w *Worker) completions(rw http.ResponseWriter, r *http.Request) error {
	body, err := w.readBody(rw, r)
	if err != nil {
		return err
	}
	c, err := decodeText(body, w.cfg.maxModelLen())
	if err != nil {
		return err
	}
	return w.complete(rw, r, c, textShape)
}

// complete runs a decoded completion and answers it.
func (w *Worker) complete(rw http.ResponseWriter, r *http.Request, c completion, s shape) error {
	g, err := w.plan(&c)
	if err != nil {
		return err
	}
	wanted, ranked, err := w.wantedRank(r.Header)
	if err != nil {
		return err
	}
	if err := w.maybeFail(); err != nil {
		return err
	}
	seq, ok := w.engine.enter(g.prompt, g.tokens, namespace{g.adapter, g.salt}, wanted, ranked)
	if !ok {
		return &apiError{http.StatusServiceUnavailable, refusedQueueFull, "too many requests wait on this rank"}
	}
	defer seq.leave(finishAbort)
	rw.Header().Set("X-Sim-Rank", strconv.Itoa(seq.rank))
	a := answer{
		shape:   s,
		id:      s.idPrefix() + w.cfg.Name + "-" + strconv.FormatUint(w.serial.Add(1), 10),
		created: time.Now().Unix(),
		model:   c.model,
	}
	begin := time.Now()
	if c.stream {
		err = w.stream(r.Context(), rw, seq, &g, &a, c.includeUsage)
	} else {
		err = w.whole(r.Context(), rw, seq, &g, &a)
	}
	w.cfg.Logger.Debug("completion", "path", r.URL.Path, "model", c.model, "rank", seq.rank, "prompt_tokens", len(g.prompt),
		"cached_tokens", seq.cached, "tokens", g.tokens, "stream", c.stream, "took", time.Since(begin), "err", err)
	return err
}

// plan checks the model and the length of a completion and fills in defaults.
func (w *Worker) plan(c *completion) (generation, error) {
	model, adapter, err := w.resolveModel(c.model)
	if err != nil {
		return generation{}, err
	}
	c.model = model
	g := generation{prompt: c.prompt, adapter: adapter, salt: c.salt, tokens: c.maxTokens, finishes: finishLength}
	most := w.cfg.maxModelLen()
	if c.maxTokens == 0 {
		g.tokens, g.finishes = min(w.cfg.Tokens, max(most-len(c.prompt), 1)), finishStop
	}
	if g.tokens > most-len(c.prompt) {
		return generation{}, badRequest("this model's maximum context length is %d tokens: the prompt has %d, and %d are to be generated",
			most, len(c.prompt), g.tokens)
	}
	return g, nil
}

// resolveModel returns the name to answer under, and the adapter if it is one.
// As in vLLM an absent model means the primary one.
func (w *Worker) resolveModel(name string) (model, adapter string, err error) {
	switch {
	case name == "":
		return w.cfg.Models[0], "", nil
	case slices.Contains(w.cfg.Models, name):
		return name, "", nil
	case slices.Contains(w.cfg.Adapters, name):
		return name, name, nil
	}
	return "", "", &apiError{http.StatusNotFound, refusedModel, fmt.Sprintf("The model `%s` does not exist.", name)}
}

// wantedRank reads the header by which vLLM takes a rank. Unlike vLLM, which
// ignores a value that is no number, it refuses every value that names no rank
// of this worker: a router that sends one is to be noticed.
func (w *Worker) wantedRank(h http.Header) (rank int, ranked bool, err error) {
	values := h.Values("X-Data-Parallel-Rank")
	if len(values) == 0 {
		return 0, false, nil
	}
	rank, err = strconv.Atoi(values[0])
	if err != nil || len(values) > 1 || rank < 0 || rank >= w.cfg.Ranks {
		return 0, false, badRequest("x-data-parallel-rank must be one number from 0 to %d", w.cfg.Ranks-1)
	}
	return rank, true, nil
}

// whole answers with one JSON object when the reply is complete.
func (w *Worker) whole(ctx context.Context, rw http.ResponseWriter, seq *sequence, g *generation, a *answer) error {
	tokens := make([]token, 0, g.tokens)
	err := w.run(ctx, seq, g, func(id token) error {
		tokens = append(tokens, id)
		return nil
	})
	if err != nil {
		return err
	}
	text, _, _ := tokensText(tokens)
	writeJSON(rw, http.StatusOK, a.whole(text, g.finishes, usageOf(seq, g)))
	return nil
}

// stream answers with server-sent events, one a token. The headers go out
// before the first token, as vLLM sends them. The sequence has left the engine
// before the finish reason goes out, so that a client which reads to the end
// and goes on at once meets its own blocks.
func (w *Worker) stream(ctx context.Context, rw http.ResponseWriter, seq *sequence, g *generation, a *answer, includeUsage bool) error {
	events, err := startEvents(rw)
	if err != nil {
		return err
	}
	first := true
	err = w.run(ctx, seq, g, func(id token) error {
		if first {
			first = false
			if err := a.sendOpening(events); err != nil {
				return err
			}
		}
		text, _ := tokenText(id)
		return events.send(a.delta(text))
	})
	if err != nil {
		return err
	}
	if err := events.send(a.ending(g.finishes)); err != nil {
		return err
	}
	if includeUsage {
		if err := events.send(a.usage(usageOf(seq, g))); err != nil {
			return err
		}
	}
	return events.done()
}

func usageOf(seq *sequence, g *generation) usage {
	return usage{
		PromptTokens:     len(g.prompt),
		CompletionTokens: g.tokens,
		TotalTokens:      len(g.prompt) + g.tokens,
		Details:          usageDetails{CachedTokens: seq.cached},
	}
}
