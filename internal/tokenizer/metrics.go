package tokenizer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the package's. Outcomes are a closed list.
type metrics struct {
	calls   [len(outcomeNames)]prometheus.Counter
	seconds prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	calls := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_tokenizer_calls_total", Help: "Times a prompt's tokens were asked for, by how that ended.",
	}, []string{"outcome"})
	m := &metrics{seconds: factory.NewHistogram(prometheus.HistogramOpts{
		Name: "mooring_tokenizer_seconds", Help: "How long requests waited for their tokens, cached ones left out.",
		Buckets: []float64{.001, .0025, .005, .01, .02, .035, .05, .1, .25, .5},
	})}
	for outcome := range m.calls {
		m.calls[outcome] = calls.WithLabelValues(Outcome(outcome).String())
	}
	return m
}

func (m *metrics) observe(outcome Outcome, took time.Duration) {
	m.calls[outcome].Inc()
	if outcome != Cached {
		m.seconds.Observe(took.Seconds())
	}
}
