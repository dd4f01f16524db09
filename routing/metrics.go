package routing

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the package's. Labels are of closed lists.
type metrics struct {
	prompts map[string]prometheus.Counter // by source, or by problem
	overlap prometheus.Counter
	rest    prometheus.Counter
}

// tokenizerFailed stands for all outcomes of a tokenizer without tokens: it counts
// them itself.
const tokenizerFailed = "tokenizer_failed"

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	prompts := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_prompts_total", Help: "Prompts that a choice was made for where KV state is known, by where their tokens came from or why there are none.",
	}, []string{"tokens"})
	blocks := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_prompt_blocks_total", Help: "Blocks of prompts that a choice was made for, by whether the chosen worker was known to hold them.",
	}, []string{"held"})
	m := &metrics{prompts: make(map[string]prometheus.Counter), overlap: blocks.WithLabelValues("true"), rest: blocks.WithLabelValues("false")}
	for _, name := range []string{
		sourcePrompt, sourceTokenData, sourceTokenizer, problemNoBody, problemUnreadable, problemAmbiguous, problemNoPrompt, problemNoTokenizer,
		problemTooLong, problemEmptyPrompt, tokenizerFailed,
	} {
		m.prompts[name] = prompts.WithLabelValues(name)
	}
	return m
}

// chose counts a choice for a prompt that was read or should have been.
func (m *metrics) chose(p *prompt, overlap int) {
	switch {
	case p.known():
		m.prompts[p.source].Inc()
		m.overlap.Add(float64(overlap))
		m.rest.Add(float64(p.blocks - overlap))
	case strings.HasPrefix(p.problem, problemTokenizer):
		m.prompts[tokenizerFailed].Inc()
	default:
		m.prompts[p.problem].Inc()
	}
}
