package extproc

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// How an end was learnt: label values of mooring_request_ends_total.
const (
	byAccessLog  = "access_log"
	byJoin       = "join"       // access log, without metadata of ours
	byOvertaking = "overtaking" // access log, before the pick was made
	byStream     = "stream"
	byExpiry     = "expiry"
	byEviction   = "eviction"
	byOrphaning  = "orphaning" // the connection of the pick was lost
	byFailedSend = "failed_send"
	byReplica    = "replica" // another replica passed it on
)

// What became of an access log entry: label values of
// mooring_access_log_entries_total.
const (
	entryEnded        = "ended"
	entryJoined       = "joined"
	entryUnknown      = "unknown"       // its lease has ended already
	entryPassedOn     = "passed_on"     // to the replica that picked
	entryOtherReplica = "other_replica" // picked by another replica, which is gone or cannot be told
	entryForeign      = "foreign"       // of a request that was not picked for
	entryNoEnd        = "no_end"        // not about the end of a request
	entryMalformed    = "malformed"
	entryExcess       = "excess" // over the limit of one message
)

// What was odd about a stream: label values of mooring_stream_oddities_total.
const (
	oddNotReady   = "not_ready"
	oddMode       = "impossible_mode"
	oddViolation  = "protocol_violation"
	oddRepeat     = "repeated_end"
	oddClientGone = "left_before_pick"
	oddReceive    = "receive_error"
	oddMessage    = "message_too_large"
	oddSend       = "send_error"
	oddStalled    = "stalled"
	oddExpired    = "expired"
	oddSubset     = "unreadable_subset"
)

type metrics struct {
	requests        *prometheus.CounterVec // reason, code
	pick            prometheus.Histogram
	streams         prometheus.Gauge
	oddities        *prometheus.CounterVec // kind
	ends            *prometheus.CounterVec // outcome, by
	entries         *prometheus.CounterVec // disposition
	logStreams      prometheus.Gauge
	mismatches      prometheus.Counter
	connectFailures prometheus.Counter
	unreported      prometheus.Counter
	unloaded        prometheus.Counter
	panics          prometheus.Counter
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func newMetrics() *metrics {
	return &metrics{
		requests: counters("mooring_requests_total", "Requests answered, by reason and status; 200: sent to a worker.", "reason", "code"),
		pick: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "mooring_pick_seconds", Help: "Time from having all that a pick needs to the pick.",
			Buckets: []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		streams:         gauge("mooring_streams", "Open ext_proc streams."),
		oddities:        counters("mooring_stream_oddities_total", "What was odd about ext_proc streams.", "kind"),
		ends:            counters("mooring_request_ends_total", "Ends of routed requests, by outcome and how they were learnt.", "outcome", "by"),
		entries:         counters("mooring_access_log_entries_total", "Access log entries received, by what became of them.", "disposition"),
		logStreams:      gauge("mooring_access_log_streams", "Open access log streams."),
		mismatches:      counter("mooring_served_mismatch_total", "Requests that another worker served than the one picked."),
		connectFailures: counter("mooring_connect_failures_total", "Requests whose worker Envoy could not connect to."),
		unreported:      counter("mooring_unreported_picks_total", "Picks made while no access log stream had been open for 10 s."),
		unloaded:        counter("mooring_unloaded_leases_total", "Leases taken out of the load because nobody reports their end."),
		panics:          counter("mooring_panics_total", "Panics that were caught; each cost one stream."),
	}
}

// register adds the metrics and one that reads the ledger's size.
func (m *metrics) register(r prometheus.Registerer, awaited func() int) error {
	if r == nil {
		return nil
	}
	size := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mooring_awaited_ends", Help: "Routed requests whose end is awaited."},
		func() float64 { return float64(awaited()) })
	for _, c := range []prometheus.Collector{m.requests, m.pick, m.streams, m.oddities, m.ends, m.entries, m.logStreams,
		m.mismatches, m.connectFailures, m.unreported, m.unloaded, m.panics, size} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
