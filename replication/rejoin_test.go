package replication

import (
	"testing"
	"time"
)

// TestRejoinWaitsAnew has a replica that has been up for long join again: it waits
// for the peers as if it had only started.
func TestRejoinWaitsAnew(t *testing.T) {
	core, _ := newBenchCore(t, 1, 1000)
	now := time.Now()
	ready := func() bool {
		core.Tick(now)
		core.Flush(now)
		ready, _ := core.Ready()
		return ready
	}
	now = now.Add(time.Hour)
	if !ready() {
		t.Fatal("not ready after an hour")
	}
	core.Rejoin(now)
	now = now.Add(2900 * time.Millisecond)
	if ready() {
		t.Error("ready before the sync timeout has passed anew")
	}
	tell(t, core, now, 2, &SyncMessage{Type: DigestOf, Partition: benchPart, Sums: digestWith(3)})
	now = now.Add(2900 * time.Millisecond)
	if ready() {
		t.Error("ready while the repair comes forward")
	}
	now = now.Add(100 * time.Millisecond)
	if !ready() {
		t.Error("not ready although nothing came for the sync timeout")
	}
}
