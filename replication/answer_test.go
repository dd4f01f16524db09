package replication

import (
	"slices"
	"testing"
	"time"
)

// TestRepairKeepsToItsBudget has a replica that knows nothing ask for 25,000
// bindings: no second brings more than 20,000, and none comes twice.
func TestRepairKeepsToItsBudget(t *testing.T) {
	const records, step = 25_000, 20 * time.Millisecond
	joiner, table := newBenchCore(t, 1, records)
	full, other := newBenchCore(t, 2, records)
	for i := range records {
		other.Apply(benchEvent(i))
	}
	var sent []int // in each step
	start := time.Now()
	for now := start; now.Before(start.Add(2 * time.Second)); now = now.Add(step) {
		n := 0
		joiner.Tick(now)
		for _, m := range joiner.Flush(now) {
			full.Receive(now, m)
		}
		full.Tick(now)
		for _, m := range full.Flush(now) {
			if m.Topic == TopicV2 {
				n++
			}
			joiner.Receive(now, m)
		}
		sent = append(sent, n)
	}
	total, most := 0, 0
	for i, n := range sent {
		total += n
		second := 0
		for _, n := range sent[max(0, i-49) : i+1] {
			second += n
		}
		most = max(most, second)
	}
	if total != records || most > repairPerSec || table.Digest() != other.Digest() {
		t.Errorf("%d records sent, %d in one second, at most %d in 20ms; want %d, at most %d", total, most, slices.Max(sent), records, repairPerSec)
	}
	if len(full.answers) != 0 || len(joiner.asks) != 0 {
		t.Errorf("%d answers and %d wants are not done", len(full.answers), len(joiner.asks))
	}
}
