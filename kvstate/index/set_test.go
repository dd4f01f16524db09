package index_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

var (
	llama = fleet.Partition{Model: "llama", Group: "default"}
	qwen  = fleet.Partition{Model: "qwen", Group: "default"}
	one   = index.Owner{Key: kvstate.WorkerKey(kvstate.Worker{WorkerID: 1})}
	two   = index.Owner{Key: kvstate.WorkerKey(kvstate.Worker{WorkerID: 2})}
)

func TestPartitionsAreApart(t *testing.T) {
	s := index.NewSet(index.Config{})
	if _, ok := s.Partition(llama); ok {
		t.Fatal("a partition is there before it was opened")
	}
	a, b := s.Open(llama), s.Open(qwen)
	if s.Open(llama) != a || a == b {
		t.Fatal("Open does not give each partition its one index")
	}
	a.Store(one, kvstate.Device, 0, false, []kvstate.Block{{External: 1, Local: 2}})
	if got, ok := s.Partition(llama); !ok || got != a || got.Len() != 1 || b.Len() != 0 {
		t.Error("a block is in the wrong partition")
	}
}

// TestDroppedPartitionIsEmptyForGood: a feed that has not heard of it yet does no
// harm (case B90).
func TestDroppedPartitionIsEmptyForGood(t *testing.T) {
	s := index.NewSet(index.Config{})
	ix := s.Open(llama)
	block := []kvstate.Block{{External: 1, Local: 2}}
	ix.Store(one, kvstate.Device, 0, false, block)
	s.Drop(llama)
	s.Drop(qwen)
	if out := ix.Store(one, kvstate.Device, 0, false, block); out.Refused != 1 || ix.Len() != 0 {
		t.Errorf("after Drop: %+v, %d blocks", out, ix.Len())
	}
	if _, ok := s.Partition(llama); ok || s.Open(llama) == ix {
		t.Error("the dropped index is still there")
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := index.NewSet(index.Config{MaxBlocks: 3, Registerer: registry})
	ix := s.Open(llama)
	s.Open(qwen).Store(one, kvstate.Device, 0, false, []kvstate.Block{{External: 1, Local: 1}})
	ix.Store(one, kvstate.Device, 0, false, []kvstate.Block{{External: 1, Local: 1}, {External: 2, Local: 2}})
	ix.Store(one, kvstate.Device, 0, false, []kvstate.Block{{External: 1, Local: 7}}) // a conflict
	ix.Store(two, kvstate.Device, 9, true, []kvstate.Block{{External: 1, Local: 1}})  // an orphan
	ix.Store(two, kvstate.Device, 0, false, []kvstate.Block{{External: 4, Local: 4}}) // takes the orphan's room
	ix.Store(two, kvstate.Device, 4, true, []kvstate.Block{{External: 5, Local: 5}})  // takes the other owner's
	ix.Store(two, kvstate.Device, 5, true, []kvstate.Block{{External: 6, Local: 6}, {External: 7, Local: 7}})
	ix.Remove(one, kvstate.Device, []uint64{1, 2})
	want := `
# HELP mooring_kv_blocks Blocks that owners hold, each once for each owner, over all partitions.
# TYPE mooring_kv_blocks gauge
mooring_kv_blocks 4
# HELP mooring_kv_dropped_blocks_total Blocks that the index forgot, by reason: their owner stored least recently and there were max_blocks or max_owners; or an orphan whose parent did not come in time.
# TYPE mooring_kv_dropped_blocks_total counter
mooring_kv_dropped_blocks_total{reason="max_blocks"} 2
mooring_kv_dropped_blocks_total{reason="max_owners"} 0
mooring_kv_dropped_blocks_total{reason="orphan"} 1
# HELP mooring_kv_orphans Blocks that wait for their parent to be stored, over all partitions.
# TYPE mooring_kv_orphans gauge
mooring_kv_orphans 0
# HELP mooring_kv_owners Owners of blocks, over all partitions.
# TYPE mooring_kv_owners gauge
mooring_kv_owners 2
# HELP mooring_kv_refused_blocks_total Blocks that the index did not take: conflict (at or after one that its owner has elsewhere), block_size (not the partition's), full (no other owner to drop, or no such tier, or the partition is gone).
# TYPE mooring_kv_refused_blocks_total counter
mooring_kv_refused_blocks_total{reason="block_size"} 0
mooring_kv_refused_blocks_total{reason="conflict"} 1
mooring_kv_refused_blocks_total{reason="full"} 1
# HELP mooring_kv_unknown_removes_total Removes of blocks that their owner did not hold.
# TYPE mooring_kv_unknown_removes_total counter
mooring_kv_unknown_removes_total 2
`
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&got, f); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got.String())); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
