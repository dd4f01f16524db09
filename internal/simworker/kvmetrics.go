package simworker

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// kvCounters are what became of the batches of one rank.
type kvCounters struct {
	published atomic.Uint64
	withheld  atomic.Uint64 // by KVEvents.DropEvery
	failed    atomic.Uint64 // not taken by the socket
	replays   atomic.Uint64 // requests
}

// kvCollector shows the counters of every rank, and what its journal lost.
type kvCollector struct {
	engine *engine
	counts []kvCounters

	batches, replays *prometheus.Desc
}

func newKVCollector(e *engine, counts []kvCounters) *kvCollector {
	return &kvCollector{
		engine:  e,
		counts:  counts,
		batches: prometheus.NewDesc("simworker_kv_batches_total", "Batches of KV events, by what became of them.", []string{"engine", "outcome"}, nil),
		replays: prometheus.NewDesc("simworker_kv_replays_total", "Replay requests.", []string{"engine"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *kvCollector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *kvCollector) Collect(out chan<- prometheus.Metric) {
	for i := range c.counts {
		engine, n := strconv.Itoa(i), &c.counts[i]
		counter := func(d *prometheus.Desc, v uint64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
		}
		counter(c.batches, n.published.Load(), engine, "published")
		counter(c.batches, n.withheld.Load(), engine, "withheld")
		counter(c.batches, n.failed.Load(), engine, "failed")
		counter(c.batches, c.engine.lost(i), engine, "lost")
		counter(c.replays, n.replays.Load(), engine)
	}
}
