package discovery

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestFiguresOfAPage(t *testing.T) {
	const two = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:num_requests_waiting{engine="1",model_name="m"} 7.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="4096"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="2048"} 1.0
# TYPE process_open_fds gauge
process_open_fds 41
`
	tests := []struct {
		name, page string
		want       []Figures
	}{
		{"two ranks", two, []Figures{{Running: 3, KVUse: 0.25, KVBlocks: 4096}, {Running: 1, Waiting: 7, KVUse: 0.5, KVBlocks: 2048}}},
		{"without types and labels", "vllm:num_requests_running 2\nvllm:num_requests_waiting 1\n", []Figures{{Running: 2, Waiting: 1}}},
		{"blocks of all ranks", "vllm:num_requests_running 2\nvllm:cache_config_info{num_gpu_blocks=\"99\"} 1\n", []Figures{{Running: 2, KVBlocks: 99}}},
		{"blocks that are no number", "vllm:num_requests_running 2\nvllm:cache_config_info{num_gpu_blocks=\"None\"} 1\n", []Figures{{Running: 2}}},
		{"an older name", "vllm:gpu_cache_usage_perc 0.75\n", []Figures{{KVUse: 0.75}}},
		{"nonsense values", "vllm:num_requests_running NaN\nvllm:num_requests_waiting -4\nvllm:kv_cache_usage_perc +Inf\n", []Figures{{KVUse: 1}}},
		{"a huge value", "vllm:num_requests_waiting 1e300\n", []Figures{{Waiting: 1 << 20}}},
		{"an engine that is no rank", `vllm:num_requests_running{engine="99999999"} 5` + "\n", []Figures{{Running: 5}}},
		{"several models on one engine", `vllm:num_requests_running{engine="0",model_name="a"} 5` + "\n" + `vllm:num_requests_running{engine="0",model_name="b"} 6` + "\n", []Figures{{Running: 11}}},
	}
	at := time.Unix(100, 0)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := readFigures(strings.NewReader(tc.page), at)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(tc.want) {
				t.Fatalf("got %d ranks, want %d", len(got), len(tc.want))
			}
			for i, want := range tc.want {
				want.At = at
				if got[i] != want {
					t.Errorf("rank %d: got %+v, want %+v", i, got[i], want)
				}
			}
		})
	}
	for name, page := range map[string]string{"nothing": "", "other metrics": "up 1\n", "no metrics": "<html>not found</html>\n"} {
		if got, err := readFigures(strings.NewReader(page), at); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestFiguresOfAWorkerAreThoseOfItsRanks(t *testing.T) {
	got := together([]Figures{{Running: 3, Waiting: 1, KVUse: 0.25, KVBlocks: 100}, {Running: 1, Waiting: 7, KVUse: 0.5, KVBlocks: 50}})
	if want := (Figures{Running: 4, Waiting: 8, KVUse: 0.5, KVBlocks: 150}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func FuzzReadFigures(f *testing.F) {
	f.Add("vllm:num_requests_running{engine=\"1\"} 2\nvllm:kv_cache_usage_perc 0.5\n")
	f.Add("# TYPE vllm:num_requests_waiting histogram\nvllm:num_requests_waiting_bucket{le=\"1\"} 2\n")
	f.Fuzz(func(t *testing.T, page string) {
		ranks, err := readFigures(strings.NewReader(page), time.Time{})
		if err == nil && (len(ranks) == 0 || len(ranks) > maxRanksRead) {
			t.Fatalf("%d ranks", len(ranks))
		}
		for _, r := range ranks {
			if r.Running < 0 || r.Waiting < 0 || math.IsNaN(r.KVUse) || r.KVUse < 0 || r.KVUse > 1 {
				t.Fatalf("%+v", r)
			}
		}
	})
}
