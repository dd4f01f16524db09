package affinity

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// moveCause says why a session's binding went from one target to another.
type moveCause uint8

const (
	moveNone       moveCause = iota
	moveWorkerGone           // its worker was not schedulable when a request came
	moveFailover             // its worker left between a request's pick and its dispatch
	moveSoft                 // a soft binding followed the dispatch
	movePin                  // an operator's order
	moveReplica              // another replica's newer binding
	moveCauses               // how many there are
)

// String returns the value of the metric's label.
func (c moveCause) String() string {
	switch c {
	case moveNone:
		return "none"
	case moveWorkerGone:
		return "worker_gone"
	case moveFailover:
		return "failover"
	case moveSoft:
		return "soft"
	case movePin:
		return "pin"
	case moveReplica:
		return "replica"
	default:
		return "cause(" + strconv.Itoa(int(c)) + ")"
	}
}

// metrics are the package's counters; the gauges are read from the tables when
// somebody asks. All counters exist from the start, at zero.
type metrics struct {
	moves         [moveCauses]prometheus.Counter
	expired       prometheus.Counter
	unpinned      prometheus.Counter
	neverSent     prometheus.Counter
	lost          prometheus.Counter
	floorsEvicted prometheus.Counter

	refusedFull     prometheus.Counter
	refusedInvalid  prometheus.Counter
	refusedConflict prometheus.Counter
	refusedGone     prometheus.Counter
	refusedLate     prometheus.Counter
	refusedTables   prometheus.Counter

	all []prometheus.Collector
}

func newMetrics() *metrics {
	moves := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_session_moves_total",
		Help: "Bindings that went from one target to another, by cause.",
	}, []string{"cause"})
	endings := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_session_endings_total",
		Help: "Bindings that ended: expired, unpinned by an operator, or never_sent (the first request never reached the worker).",
	}, []string{"cause"})
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_session_refusals_total",
		Help: "Requests that the session table refused, by reason.",
	}, []string{"reason"})
	m := &metrics{
		expired:   endings.WithLabelValues("expired"),
		unpinned:  endings.WithLabelValues("unpinned"),
		neverSent: endings.WithLabelValues("never_sent"),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mooring_session_turns_lost_total",
			Help: "Initialisers that chose no worker within the init timeout and lost their turn.",
		}),
		floorsEvicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mooring_session_floors_evicted_total",
			Help: "Unpins, and first bindings that never reached their worker, that were forgotten before their time because there are too many.",
		}),
		refusedFull:     refusals.WithLabelValues("full"),
		refusedInvalid:  refusals.WithLabelValues("invalid"),
		refusedConflict: refusals.WithLabelValues("conflict"),
		refusedGone:     refusals.WithLabelValues("worker_gone"),
		refusedLate:     refusals.WithLabelValues("initialiser_lost"),
		refusedTables: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mooring_session_tables_refused_total",
			Help: "Look-ups of a partition that got no session table because there are too many.",
		}),
	}
	for c := moveWorkerGone; c < moveCauses; c++ {
		m.moves[c] = moves.WithLabelValues(c.String())
	}
	m.all = []prometheus.Collector{moves, endings, refusals, m.lost, m.floorsEvicted, m.refusedTables}
	return m
}

// count adds the counted part of fx.
func (m *metrics) count(fx *effects) {
	if fx.move != moveNone {
		m.moves[fx.move].Inc()
	}
	add(m.expired, fx.expired)
	add(m.unpinned, fx.unpinned)
	add(m.neverSent, fx.neverSent)
	add(m.lost, fx.lost)
}

func add(c prometheus.Counter, n int) {
	if n > 0 {
		c.Add(float64(n))
	}
}

// gauges reads the tables' sizes at scrape time.
type gauges struct {
	resolver *Resolver
	bindings *prometheus.Desc
	leases   *prometheus.Desc
	waiters  *prometheus.Desc
}

func newGauges(r *Resolver) gauges {
	return gauges{
		resolver: r,
		bindings: prometheus.NewDesc("mooring_bindings", "Sessions that are bound, over all partitions.", nil, nil),
		leases:   prometheus.NewDesc("mooring_leases", "Requests that hold a lease on a binding, over all partitions.", nil, nil),
		waiters:  prometheus.NewDesc("mooring_session_waiters", "Requests that wait for another's choice or for a worker to return.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- g.bindings
	ch <- g.leases
	ch <- g.waiters
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	var bindings, leases, waiters int
	for _, t := range g.resolver.all() {
		b, l := t.counts()
		bindings, leases, waiters = bindings+b, leases+l, waiters+int(t.waiters.Load())
	}
	ch <- prometheus.MustNewConstMetric(g.bindings, prometheus.GaugeValue, float64(bindings))
	ch <- prometheus.MustNewConstMetric(g.leases, prometheus.GaugeValue, float64(leases))
	ch <- prometheus.MustNewConstMetric(g.waiters, prometheus.GaugeValue, float64(waiters))
}
