package discovery

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"mooring/internal/fleet"
)

type metrics struct {
	workers        *prometheus.GaugeVec   // state
	probeFailures  *prometheus.CounterVec // cause
	lateProbes     prometheus.Counter
	lookupFailures prometheus.Counter
	doubts         *prometheus.CounterVec // source
	doubted        *prometheus.GaugeVec   // source
	sourceFailures *prometheus.CounterVec // source
	sourceFailing  *prometheus.GaugeVec   // source
	refused        *prometheus.CounterVec // source
}

// newMetrics registers the metrics, if there is a registerer. The names of
// sources come from the program and its configuration.
func newMetrics(r prometheus.Registerer) metrics {
	f := promauto.With(r)
	gauges := func(name, help, label string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := metrics{
		workers:       gauges("mooring_workers", "Workers by state.", "state"),
		probeFailures: counters("mooring_worker_probe_failures_total", "Failed health probes of workers; reported: connect failures that Envoy saw.", "cause"),
		lateProbes: f.NewCounter(prometheus.CounterOpts{Name: "mooring_worker_probes_late_total",
			Help: "Health probes that began more than an interval late, because too many others were unanswered."}),
		lookupFailures: f.NewCounter(prometheus.CounterOpts{Name: "mooring_worker_lookup_failures_total",
			Help: "Lookups of workers' names that gave no address."}),
		doubts:         counters("mooring_worker_doubts_total", "Doubts begun because a source's answer removed too many workers at once.", "source"),
		doubted:        gauges("mooring_workers_doubted", "Workers that a source does not list any more, and that are kept because its answer is doubted.", "source"),
		sourceFailures: counters("mooring_worker_source_failures_total", "Times a source of workers could not answer.", "source"),
		sourceFailing:  gauges("mooring_worker_source_failing", "1 if a source of workers could not answer when last asked.", "source"),
		refused:        counters("mooring_workers_refused_total", "Listed workers that were left out: a bad address, or an id that is listed already.", "source"),
	}
	for _, s := range fleet.States {
		m.workers.WithLabelValues(s.String())
	}
	for _, c := range causes {
		m.probeFailures.WithLabelValues(string(c))
	}
	return m
}

// addSource makes the series of a source exist, so that they show zeros.
func (m *metrics) addSource(name string) {
	m.doubts.WithLabelValues(name)
	m.doubted.WithLabelValues(name)
	m.sourceFailures.WithLabelValues(name)
	m.sourceFailing.WithLabelValues(name)
	m.refused.WithLabelValues(name)
}
