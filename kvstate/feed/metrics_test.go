package feed

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
)

// gathered returns what is not zero, and all gauges.
func gathered(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		for _, m := range f.Metric {
			value := m.Counter.GetValue() + m.Gauge.GetValue()
			if value == 0 && m.Gauge == nil {
				continue
			}
			line := strings.TrimPrefix(f.GetName(), "mooring_kv_feed_")
			for _, l := range m.Label {
				line += " " + l.GetValue()
			}
			lines = append(lines, fmt.Sprint(line, " ", value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// A block size that does not fit shows, until one that does.
func TestWrongBlockSizeShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		r := newRig(t)
		defer r.stop()
		r.metrics = NewMetrics(registry)
		e := r.engine("W", 1, 0, false, 2)
		e.connect()
		for _, tt := range []struct{ batch, want string }{
			{`[0, [["BlockStored", [1], null, [1,2,3,4], 4]]]`, "wrong_block_size 0 1 1"},
			{`[0, [["BlockStored", [1], null, [1,2], 2]]]`, "wrong_block_size 0 1 0"},
		} {
			e.publish(pack(t, tt.batch), false)
			if got := gathered(t, registry); !strings.Contains(got, tt.want) {
				t.Errorf("after %s:\n%s", tt.batch, got)
			}
		}
	})
}

// B84: a rank whose port is closed shows; drops and gaps are counted; a feed's
// series go with the last feed that has them.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		metrics := NewMetrics(registry)
		r := newRig(t)
		r.metrics = metrics
		up, down := r.engine("up", 1, 0, false, 2), r.engine("down", 1, 1, false, 2)
		up.connect()
		up.publish(pack(t, `[0, [["BlockStored", [1], null, [1,2], 2], ["BlockRemoved", [1]], ["New"], ["BlockRemoved", [1], "NVME9"]]]`), false)
		up.publish(nil, true)
		up.publish(pack(t, `[0, [["AllBlocksCleared"], ["AllBlocksCleared"]]]`), false)
		want := strings.Join([]string{
			"batches_total 0 1 2",
			"connected 0 1 1", "connected 1 1 0",
			"dropped_total unknown_medium 1", "dropped_total unknown_type 1",
			"events_total 0 cleared 1 2", "events_total 0 removed 1 1", "events_total 0 stored 1 1",
			"gaps_total 0 1 1",
			"holed 0 1 0", "holed 1 1 1",
			"missing_batches_total 0 1 1",
			"wrong_block_size 0 1 0", "wrong_block_size 1 1 0",
		}, "\n")
		if got := gathered(t, registry); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		const dropped = "dropped_total unknown_medium 1\ndropped_total unknown_type 1" // over all feeds: it stays
		r.stop()
		metrics.open("1", 1) // another feed of the name, before the first has ended
		metrics.close("1", 0)
		metrics.close("1", 1)
		if got := gathered(t, registry); got != "connected 1 1 0\n"+dropped+"\nholed 1 1 1\nwrong_block_size 1 1 0" {
			t.Errorf("after the first ended:\n%s", got)
		}
		metrics.close("1", 1)
		if got := gathered(t, registry); got != dropped {
			t.Errorf("in the end:\n%s", got)
		}
		if down.feed.Details().Generation != 0 {
			t.Error("attached without a connection")
		}
	})
}
