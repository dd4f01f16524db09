package discovery

import (
	"fmt"
	"io"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Figures are what a worker, or one of its ranks, said of its load.
type Figures struct {
	Running  int       // requests that are being computed
	Waiting  int       // requests that wait for their turn
	KVUse    float64   // share of the KV blocks that running requests hold, 0 to 1
	KVBlocks int       // how many KV blocks there are; 0: not told
	At       time.Time // when it was said
}

// The metrics that Figures come from, as vLLM names them; metricKVUse09 is the name
// of the releases before 0.10. Their label engine is the rank. The number of blocks
// is a label of a metric that is always 1; without an engine it holds for each rank.
const (
	metricRunning = "vllm:num_requests_running"
	metricWaiting = "vllm:num_requests_waiting"
	metricKVUse   = "vllm:kv_cache_usage_perc"
	metricKVUse09 = "vllm:gpu_cache_usage_perc"
	metricConfig  = "vllm:cache_config_info"
	labelEngine   = "engine"
	labelBlocks   = "num_gpu_blocks"
)

// maxRanksRead bounds the ranks that a page of metrics can make us remember.
const maxRanksRead = 1024

// readFigures reads a page of metrics in Prometheus' text format into one Figures
// a rank. An engine whose label is no rank counts as rank 0; a page that shows no
// load at all is an error.
func readFigures(page io.Reader, at time.Time) ([]Figures, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	var ranks []Figures
	rank := func(m *dto.Metric) *Figures {
		n := rankOf(m)
		for len(ranks) <= n {
			ranks = append(ranks, Figures{At: at})
		}
		return &ranks[n]
	}
	for _, m := range families[metricRunning].GetMetric() {
		rank(m).Running += count(m)
	}
	for _, m := range families[metricWaiting].GetMetric() {
		rank(m).Waiting += count(m)
	}
	for _, name := range []string{metricKVUse09, metricKVUse} {
		for _, m := range families[name].GetMetric() {
			rank(m).KVUse = fraction(m)
		}
	}
	for _, m := range families[metricConfig].GetMetric() {
		setBlocks(ranks, m)
	}
	if len(ranks) == 0 {
		return nil, fmt.Errorf("no %s, %s or %s among %d metrics", metricRunning, metricWaiting, metricKVUse, len(families))
	}
	return ranks, nil
}

// setBlocks notes the number of blocks that m tells, for its rank or for all.
func setBlocks(ranks []Figures, m *dto.Metric) {
	blocks, ok := number(m, labelBlocks)
	if !ok {
		return
	}
	rank, one := number(m, labelEngine)
	for i := range ranks {
		if !one || i == rank {
			ranks[i].KVBlocks = blocks
		}
	}
}

func rankOf(m *dto.Metric) int {
	if n, ok := number(m, labelEngine); ok && n < maxRanksRead {
		return n
	}
	return 0
}

// number reads a label as a count.
func number(m *dto.Metric, label string) (int, bool) {
	for _, l := range m.GetLabel() {
		if l.GetName() == label {
			n, err := strconv.ParseUint(l.GetValue(), 10, 31)
			return int(n), err == nil
		}
	}
	return 0, false
}

// value reads a gauge, whether or not the page declares its type.
func value(m *dto.Metric) float64 {
	if m.GetGauge() != nil {
		return m.GetGauge().GetValue()
	}
	return m.GetUntyped().GetValue()
}

// count is a number of requests, whatever nonsense the page says.
func count(m *dto.Metric) int {
	const most = 1 << 20
	if v := value(m); v > 0 { // false for NaN
		return int(min(v, most))
	}
	return 0
}

func fraction(m *dto.Metric) float64 {
	if v := value(m); v > 0 {
		return min(v, 1)
	}
	return 0
}

// together is the load of a worker as a whole: the requests of all its ranks, and
// the use of the fullest.
func together(ranks []Figures) Figures {
	sum := Figures{At: ranks[0].At}
	for _, r := range ranks {
		sum.Running += r.Running
		sum.Waiting += r.Waiting
		sum.KVBlocks += r.KVBlocks
		sum.KVUse = max(sum.KVUse, r.KVUse)
	}
	return sum
}
