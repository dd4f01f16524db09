package reconcile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"mooring/kvstate"
)

type metrics struct {
	resolves prometheus.Counter
	refused  *prometheus.CounterVec   // reason
	calls    *prometheus.HistogramVec // question
	failures *prometheus.CounterVec   // question
}

// newMetrics registers the metrics, if there is a registerer. What owners there
// are is counted when it is asked for.
func newMetrics(reg prometheus.Registerer, r *Reconciler) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		resolves: f.NewCounter(prometheus.CounterOpts{Name: "mooring_kvstate_resolves_total",
			Help: "How often a cache owner was resolved. It grows with changes, not with owners."}),
		refused: f.NewCounterVec(prometheus.CounterOpts{Name: "mooring_kvstate_refused_total",
			Help: "Discovery records, recoveries and live events of state agents that were not taken."}, []string{"reason"}),
		calls: f.NewHistogramVec(prometheus.HistogramOpts{Name: "mooring_kvstate_control_seconds",
			Help:    "Time of questions to state agents, waiting for their turn included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}, []string{"question"}),
		failures: f.NewCounterVec(prometheus.CounterOpts{Name: "mooring_kvstate_control_failures_total",
			Help: "Questions to state agents that were not answered."}, []string{"question"}),
	}
	for _, list := range [][]reason{recordRefusals, agentRefusals} {
		for _, why := range list {
			m.refused.WithLabelValues(string(why))
		}
	}
	for _, q := range []question{askStatus, askRange, askFull} {
		m.calls.WithLabelValues(q.String())
		m.failures.WithLabelValues(q.String())
	}
	if reg != nil {
		reg.MustRegister(gauges{r})
	}
	return m
}

func (m *metrics) asked(q question, took time.Duration, err error) {
	m.calls.WithLabelValues(q.String()).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(q.String()).Inc()
	}
}

// gauges collects what is known now.
type gauges struct{ *Reconciler }

var (
	ownersDesc = prometheus.NewDesc("mooring_kvstate_owners", "Cache owners by resolution and its reason.", []string{"resolution", "reason"}, nil)
	holedDesc  = prometheus.NewDesc("mooring_kvstate_owners_holed", "Projected cache owners whose state has known holes.", nil, nil)
	sharedDesc = prometheus.NewDesc("mooring_kvstate_workers_shared", "Workers that more than one cache owner is projected to.", nil, nil)
	sizesDesc  = prometheus.NewDesc("mooring_kvstate_block_size_errors", "Cache owners whose blocks have another size than the index.", nil, nil)
	wrongDesc  = prometheus.NewDesc("mooring_kvstate_conflicts_total", "Cache owners that were not projected because they were ready on two workers.", nil, nil)
	lostDesc   = prometheus.NewDesc("mooring_kvstate_watch_uncertain", "1 while a discovery source does not know its records.", []string{"source"}, nil)
)

// Describe and Collect are prometheus.Collector.
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ownersDesc, holedDesc, sharedDesc, sizesDesc, wrongDesc, lostDesc} {
		ch <- d
	}
}

func (g gauges) Collect(ch chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	t := g.tally()
	for reason := kvstate.Reason(0); reason <= kvstate.RecoveryBehindBarrier; reason++ {
		set(ownersDesc, float64(t.owners[reason]), reason.State().String(), reason.String())
	}
	set(holedDesc, float64(t.holed))
	set(sharedDesc, float64(g.cfg.Controller.Projection().SharedWorkers()))
	set(sizesDesc, float64(t.wrongSizes))
	ch <- prometheus.MustNewConstMetric(wrongDesc, prometheus.CounterValue, float64(g.cfg.Controller.Conflicts()))
	for name, known := range t.watches {
		uncertain := 1.0
		if known {
			uncertain = 0
		}
		set(lostDesc, uncertain, string(name))
	}
}
