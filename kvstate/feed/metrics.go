package feed

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the counts of all feeds, by worker and rank, from the
// configuration, but for what was dropped, whose many reasons are counted over
// all feeds. A feed's series go when its Run ends, unless another feed of that
// name and rank runs. Safe for concurrent use.
type Metrics struct {
	mu struct {
		sync.Mutex
		users map[feedLabels]int
	}

	batches, events, dropped, missing, gaps, restarts, replays *prometheus.CounterVec
	connected, holed, wrongBlockSize                           *prometheus.GaugeVec
}

// NewMetrics makes the metrics and registers them; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mooring_kv_feed_" + name, Help: help}, append([]string{"worker", "dp_rank"}, labels...))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "mooring_kv_feed_" + name, Help: help}, []string{"worker", "dp_rank"})
	}
	m := &Metrics{
		batches: counter("batches_total", "Batches of KV events applied."),
		events:  counter("events_total", "KV events applied, by kind.", "kind"),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_kv_feed_dropped_total", Help: "Batches and KV events not applied, by reason.",
		}, []string{"reason"}),
		gaps:           counter("gaps_total", "Gaps in the sequence that were not repaired."),
		missing:        counter("missing_batches_total", "Batches that never came."),
		restarts:       counter("restarts_total", "Engine restarts noticed."),
		replays:        counter("replays_total", "Replays asked for, by how they ended.", "outcome"),
		connected:      gauge("connected", "1 while connected to the engine's publisher."),
		holed:          gauge("holed", "1 while blocks may be missing or stale in the index."),
		wrongBlockSize: gauge("wrong_block_size", "1 while the engine's block size is not the partition's."),
	}
	m.mu.users = make(map[feedLabels]int)
	if r != nil {
		r.MustRegister(m.batches, m.events, m.dropped, m.gaps, m.missing, m.restarts, m.replays, m.connected, m.holed, m.wrongBlockSize)
	}
	return m
}

// series are one feed's.
type series struct {
	batches, gaps, missing, restarts prometheus.Counter
	events                           [ignored]prometheus.Counter // by kind
	dropped                          [reasons]prometheus.Counter
	replayed, cut                    prometheus.Counter
	connected, holed, wrongBlockSize prometheus.Gauge
}

var kindNames = [ignored]string{unknown: "unknown", stored: "stored", removed: "removed", cleared: "cleared"}

// How a replay ended.
const (
	replayComplete = "complete"
	replayCut      = "cut"
)

type feedLabels struct {
	worker string
	rank   uint32
}

// open returns the series of a feed, until as many times close.
func (m *Metrics) open(worker string, rank uint32) *series {
	m.mu.Lock()
	m.mu.users[feedLabels{worker, rank}]++
	m.mu.Unlock()
	return m.of(worker, rank)
}

// close removes the series if this was the last feed that had them.
func (m *Metrics) close(worker string, rank uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := feedLabels{worker, rank}
	if m.mu.users[l]--; m.mu.users[l] == 0 {
		delete(m.mu.users, l)
		m.forget(worker, rank)
	}
}

func (m *Metrics) of(worker string, rank uint32) *series {
	r := strconv.FormatUint(uint64(rank), 10)
	s := &series{
		batches: m.batches.WithLabelValues(worker, r), gaps: m.gaps.WithLabelValues(worker, r),
		missing: m.missing.WithLabelValues(worker, r), restarts: m.restarts.WithLabelValues(worker, r),
		replayed: m.replays.WithLabelValues(worker, r, replayComplete), cut: m.replays.WithLabelValues(worker, r, replayCut),
		connected: m.connected.WithLabelValues(worker, r), holed: m.holed.WithLabelValues(worker, r),
		wrongBlockSize: m.wrongBlockSize.WithLabelValues(worker, r),
	}
	for k := stored; k < ignored; k++ {
		s.events[k] = m.events.WithLabelValues(worker, r, kindNames[k])
	}
	for reason := range reasons {
		s.dropped[reason] = m.dropped.WithLabelValues(reason.String())
	}
	return s
}

// forget removes one feed's series.
func (m *Metrics) forget(worker string, rank uint32) {
	r := strconv.FormatUint(uint64(rank), 10)
	for _, c := range []*prometheus.CounterVec{m.batches, m.gaps, m.missing, m.restarts} {
		c.DeleteLabelValues(worker, r)
	}
	for k := stored; k < ignored; k++ {
		m.events.DeleteLabelValues(worker, r, kindNames[k])
	}
	for _, outcome := range []string{replayComplete, replayCut} {
		m.replays.DeleteLabelValues(worker, r, outcome)
	}
	for _, g := range []*prometheus.GaugeVec{m.connected, m.holed, m.wrongBlockSize} {
		g.DeleteLabelValues(worker, r)
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
