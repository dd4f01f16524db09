package simworker

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics is what /metrics shows: figures under vLLM's names, read from the
// engine when asked for, latency histograms, and the worker's own counter of
// what it refused. As in vLLM the model_name is the primary model's, whatever
// name a request used, and engine is the rank.
type metrics struct {
	registry *prometheus.Registry
	refused  *prometheus.CounterVec
	kv       []kvCounters // by rank

	firstToken prometheus.ObserverVec
	perToken   prometheus.ObserverVec
	total      prometheus.ObserverVec
}

// latencyBuckets cover the simulated times from a millisecond to minutes, in
// seconds.
func latencyBuckets() []float64 {
	return []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 30, 60, 120}
}

func newMetrics(model string, e *engine) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		kv:       make([]kvCounters, len(e.ranks)),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "simworker_refused_total",
			Help: "Requests answered with an error, by why.",
		}, []string{"why"}),
	}
	histogram := func(name, help string) prometheus.ObserverVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencyBuckets()},
			[]string{"model_name", "engine"})
		m.registry.MustRegister(v)
		return v.MustCurryWith(prometheus.Labels{"model_name": model})
	}
	m.firstToken = histogram("vllm:time_to_first_token_seconds", "Time from the start of a request to its first token, in seconds.")
	m.perToken = histogram("vllm:request_time_per_output_token_seconds", "Mean time per generated token after the first of a request, in seconds.")
	m.total = histogram("vllm:e2e_request_latency_seconds", "Time from the start of a request to its last token, in seconds.")
	m.registry.MustRegister(m.refused, newEngineCollector(model, e), newKVCollector(e, m.kv))
	return m
}

// observe records the times of a request that has finished.
func (m *metrics) observe(rank int, t timings) {
	engine := strconv.Itoa(rank)
	m.firstToken.WithLabelValues(engine).Observe(t.firstToken.Seconds())
	m.total.WithLabelValues(engine).Observe(t.total.Seconds())
	if t.perToken > 0 {
		m.perToken.WithLabelValues(engine).Observe(t.perToken.Seconds())
	}
}

// engineCollector reads the engine at each scrape, so that the figures of one
// rank belong to one moment.
type engineCollector struct {
	engine *engine
	model  string

	running, waiting, usage    *prometheus.Desc
	queries, hits              *prometheus.Desc
	promptTokens, outputTokens *prometheus.Desc
	success, cacheConfig       *prometheus.Desc
	preemptions                *prometheus.Desc
	blocks                     *prometheus.Desc
}

func newEngineCollector(model string, e *engine) *engineCollector {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("vllm:"+name, help, append([]string{"model_name", "engine"}, more...), nil)
	}
	return &engineCollector{
		engine:       e,
		model:        model,
		running:      desc("num_requests_running", "Requests that hold blocks."),
		waiting:      desc("num_requests_waiting", "Requests that wait for blocks."),
		usage:        desc("kv_cache_usage_perc", "Share of the blocks held by running requests, 0 to 1."),
		queries:      desc("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache."),
		hits:         desc("prefix_cache_hits_total", "Prompt tokens found in the prefix cache."),
		promptTokens: desc("prompt_tokens_total", "Prompt tokens processed."),
		outputTokens: desc("generation_tokens_total", "Tokens generated."),
		success:      desc("request_success_total", "Requests finished, by how.", "finished_reason"),
		preemptions:  desc("num_preemptions_total", "Preemptions; the simulation has none."),
		blocks:       prometheus.NewDesc("simworker_blocks", "Full blocks that are cached, by tier.", []string{"engine", "tier"}, nil),
		cacheConfig: prometheus.NewDesc("vllm:cache_config_info", "The cache configuration, as labels.", []string{"engine"},
			prometheus.Labels{
				"block_size":            strconv.Itoa(e.blockSize),
				"num_gpu_blocks":        strconv.Itoa(e.cacheBlocks),
				"enable_prefix_caching": "True",
			}),
	}
}

// Describe implements prometheus.Collector.
func (c *engineCollector) Describe(out chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, out)
}

// Collect implements prometheus.Collector.
func (c *engineCollector) Collect(out chan<- prometheus.Metric) {
	for i, f := range c.engine.figures() {
		engine := strconv.Itoa(i)
		gauge := func(d *prometheus.Desc, v float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, c.model, engine)
		}
		counter := func(d *prometheus.Desc, v uint64, more ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append([]string{c.model, engine}, more...)...)
		}
		gauge(c.running, float64(f.running))
		gauge(c.waiting, float64(f.waiting))
		gauge(c.usage, f.usage)
		counter(c.queries, f.totals.prefixQueries)
		counter(c.hits, f.totals.prefixHits)
		counter(c.promptTokens, f.totals.promptTokens)
		counter(c.outputTokens, f.totals.outputTokens)
		counter(c.success, f.totals.stopped, finishStop.String())
		counter(c.success, f.totals.cut, finishLength.String())
		counter(c.success, f.totals.aborted, finishAbort.String())
		counter(c.preemptions, 0)
		out <- prometheus.MustNewConstMetric(c.blocks, prometheus.GaugeValue, float64(f.full), engine, "device")
		out <- prometheus.MustNewConstMetric(c.blocks, prometheus.GaugeValue, float64(f.host), engine, "host")
		out <- prometheus.MustNewConstMetric(c.cacheConfig, prometheus.GaugeValue, 1, engine)
	}
}
