package index

import "github.com/prometheus/client_golang/prometheus"

// metrics are counted over all partitions. All exist from the start, at zero.
type metrics struct {
	droppedBlocks  [evictForOwners + 1]prometheus.Counter
	droppedOrphans prometheus.Counter
	conflicts      prometheus.Counter
	missized       prometheus.Counter
	refused        prometheus.Counter
	unknownRemoves prometheus.Counter

	all []prometheus.Collector
}

func newMetrics() *metrics {
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_kv_dropped_blocks_total",
		Help: "Blocks that the index forgot, by reason: their owner stored least recently and there were max_blocks or max_owners; or an orphan whose parent did not come in time.",
	}, []string{"reason"})
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_kv_refused_blocks_total",
		Help: "Blocks that the index did not take: conflict (at or after one that its owner has elsewhere), block_size (not the partition's), full (no other owner to drop, or no such tier, or the partition is gone).",
	}, []string{"reason"})
	m := &metrics{
		droppedOrphans: dropped.WithLabelValues("orphan"),
		conflicts:      refused.WithLabelValues("conflict"),
		missized:       refused.WithLabelValues("block_size"),
		refused:        refused.WithLabelValues("full"),
		unknownRemoves: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mooring_kv_unknown_removes_total",
			Help: "Removes of blocks that their owner did not hold.",
		}),
	}
	m.droppedBlocks[evictForBlocks] = dropped.WithLabelValues("max_blocks")
	m.droppedBlocks[evictForOwners] = dropped.WithLabelValues("max_owners")
	m.all = []prometheus.Collector{dropped, refused, m.unknownRemoves}
	return m
}

func (m *metrics) stored(out *Outcome, orphansDropped int) {
	if out.Conflict > 0 {
		m.conflicts.Add(float64(out.Conflict))
	}
	if out.Missized > 0 {
		m.missized.Add(float64(out.Missized))
	}
	if out.Refused > 0 {
		m.refused.Add(float64(out.Refused))
	}
	if orphansDropped > 0 {
		m.droppedOrphans.Add(float64(orphansDropped))
	}
}

func (m *metrics) evicted(why eviction, blocks int) {
	m.droppedBlocks[why].Add(float64(blocks))
}

// gauges reads the indexes' sizes at scrape time.
type gauges struct {
	set                     *Set
	blocks, owners, orphans *prometheus.Desc
}

func newGauges(s *Set) gauges {
	return gauges{
		set:     s,
		blocks:  prometheus.NewDesc("mooring_kv_blocks", "Blocks that owners hold, each once for each owner, over all partitions.", nil, nil),
		owners:  prometheus.NewDesc("mooring_kv_owners", "Owners of blocks, over all partitions.", nil, nil),
		orphans: prometheus.NewDesc("mooring_kv_orphans", "Blocks that wait for their parent to be stored, over all partitions.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- g.blocks
	ch <- g.owners
	ch <- g.orphans
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	var blocks, owners, orphans int
	for _, ix := range *g.set.indexes.Load() {
		ix.mu.Lock()
		blocks, owners, orphans = blocks+ix.mu.pairs, owners+len(ix.mu.owners), orphans+ix.mu.orphans
		ix.mu.Unlock()
	}
	ch <- prometheus.MustNewConstMetric(g.blocks, prometheus.GaugeValue, float64(blocks))
	ch <- prometheus.MustNewConstMetric(g.owners, prometheus.GaugeValue, float64(owners))
	ch <- prometheus.MustNewConstMetric(g.orphans, prometheus.GaugeValue, float64(orphans))
}
