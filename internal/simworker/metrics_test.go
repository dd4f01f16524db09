package simworker

import (
	"testing"

	dto "github.com/prometheus/client_model/go"
)

func TestMetricsHaveVLLMsNames(t *testing.T) {
	h := newWorker(t, Config{Models: []string{"m", "alias"}, Ranks: 2, CacheBlocks: 100, BlockSize: 8}).Handler()
	ask(t, h, "POST", "/v1/completions", `{"model":"alias","prompt":"x","max_tokens":2}`)
	ask(t, h, "POST", "/v1/completions", `{"model":"nobody's","prompt":"x"}`)

	f := scraped(t, h)
	for name, kind := range map[string]dto.MetricType{
		"vllm:num_requests_running":        dto.MetricType_GAUGE,
		"vllm:num_requests_waiting":        dto.MetricType_GAUGE,
		"vllm:kv_cache_usage_perc":         dto.MetricType_GAUGE,
		"vllm:prefix_cache_queries_total":  dto.MetricType_COUNTER,
		"vllm:prefix_cache_hits_total":     dto.MetricType_COUNTER,
		"vllm:prompt_tokens_total":         dto.MetricType_COUNTER,
		"vllm:generation_tokens_total":     dto.MetricType_COUNTER,
		"vllm:num_preemptions_total":       dto.MetricType_COUNTER,
		"vllm:request_success_total":       dto.MetricType_COUNTER,
		"vllm:time_to_first_token_seconds": dto.MetricType_HISTOGRAM,
		"vllm:e2e_request_latency_seconds": dto.MetricType_HISTOGRAM,
	} {
		family, ok := f[name]
		if !ok || family.GetType() != kind {
			t.Errorf("%s: there %v, type %v", name, ok, family.GetType())
			continue
		}
		for _, m := range family.Metric {
			labels := make(map[string]string)
			for _, pair := range m.Label {
				labels[pair.GetName()] = pair.GetValue()
			}
			if labels["model_name"] != "m" || labels["engine"] == "" {
				t.Errorf("%s has the labels %v", name, labels)
			}
		}
	}
	if got := figure(t, f, "vllm:generation_tokens_total", "0"); got != 2 {
		t.Errorf("generation tokens of rank 0: %v", got)
	}
	if got := figure(t, f, "vllm:generation_tokens_total", "1"); got != 0 {
		t.Errorf("generation tokens of rank 1: %v", got)
	}
	if got := figure(t, f, "vllm:request_success_total", "0", "finished_reason", "length"); got != 1 {
		t.Errorf("requests that ended by length: %v", got)
	}
	if got := figure(t, f, "vllm:cache_config_info", "1", "num_gpu_blocks", "100"); got != 1 {
		t.Errorf("cache_config_info: %v", got)
	}
	if m := f["simworker_refused_total"].Metric; len(m) != 1 || m[0].Label[0].GetValue() != "unknown_model" {
		t.Errorf("refusals: %v", m)
	}
	ask(t, h, "POST", "/v1/completions", `{"prompt":[256,257,258,259,260,261,262,263,264],"max_tokens":1}`)
	if got := figure(t, scraped(t, h), "simworker_blocks", "0", "tier", "device"); got != 1 {
		t.Errorf("blocks in the cache: %v", got)
	}
}
