package e2e

import (
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metric sums the series of one metric of the replica.
func (s *stack) metric(name string) float64 {
	s.t.Helper()
	return metricAt(s.t, s.admin+"/metrics", name)
}

// metricAt sums those series of a metric at a Prometheus endpoint that have all the
// labels, name and value in turn; 0 if there are none. NAME_count is how often a
// histogram was observed.
func metricAt(t *testing.T, url, name string, labels ...string) float64 {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatalf("metrics of %s: %v", url, err)
	}
	sum := 0.0
	for _, m := range families[strings.TrimSuffix(name, "_count")].GetMetric() {
		if hasLabels(m, labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func hasLabels(m *dto.Metric, labels []string) bool {
	has := make(map[string]string)
	for _, l := range m.GetLabel() {
		has[l.GetName()] = l.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if value, ok := has[labels[i]]; !ok || value != labels[i+1] {
			return false
		}
	}
	return true
}
