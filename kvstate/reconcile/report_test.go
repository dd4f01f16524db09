package reconcile

import (
	"runtime"
	"testing"
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// ownersOfOneWorker returns a reconciler of n owners that all name worker 1.
func ownersOfOneWorker(tb testing.TB, n uint64) *Reconciler {
	tb.Helper()
	r, err := New(Config{Live: fleet.NewLive(fleet.NewView([]fleet.Worker{testWorker(1)})), Index: index.NewSet(index.Config{}), Controller: kvstate.NewController()})
	if err != nil {
		tb.Fatal(err)
	}
	u := update{watch: directoryWatch, whole: true}
	for i := range n {
		s, a := manyth(i + 1)
		a.Worker = kvstate.Worker{WorkerID: 1}
		u.changes = append(u.changes, change{kvstate.SourceTopic, i + 1, s}, change{kvstate.AttachmentTopic, kvstate.AttachmentRecordID(i+1, 1), a})
	}
	r.mu.core.update(u)
	r.mu.core.settle(time.Unix(1000, 0))
	return r
}

func TestSharedWorkersAreReported(t *testing.T) {
	r := ownersOfOneWorker(t, 2) // with publishers 1 and 2
	alone, a := manyth(3)
	a.Worker = kvstate.Worker{WorkerID: 1, DPRank: 1} // another rank is another worker
	again := a
	again.AttachmentGeneration = 2
	twice, b := manyth(4) // two attachments: none is its own
	b.Worker = kvstate.Worker{WorkerID: 2}
	other := b
	other.AttachmentGeneration = 2
	beside, c := manyth(5)
	c.Worker = kvstate.Worker{WorkerID: 2}
	r.mu.core.update(update{watch: directoryWatch, changes: []change{
		{kvstate.AttachmentTopic, 31, a}, {kvstate.AttachmentTopic, 41, b}, {kvstate.AttachmentTopic, 42, other}, {kvstate.AttachmentTopic, 51, c},
	}})
	first, second := mustSource(1), mustSource(2)
	want := map[string]bool{
		first.CacheOwnerID.Key().String(): true, second.CacheOwnerID.Key().String(): true,
		alone.CacheOwnerID.Key().String(): false, twice.CacheOwnerID.Key().String(): false, beside.CacheOwnerID.Key().String(): true,
	}
	for _, o := range r.Owners() {
		if shared, ok := want[o.Owner]; !ok || o.Shared != shared {
			t.Errorf("owner %s of worker %d, rank %d: shared %v, want %v (%v)", o.Owner, o.WorkerID, o.DPRank, o.Shared, shared, ok)
		}
		delete(want, o.Owner)
	}
	if len(want) > 0 {
		t.Errorf("not reported: %v", want)
	}

	// One owner that names a worker twice does not share it with itself.
	r.mu.core.update(update{watch: directoryWatch, changes: []change{{kvstate.AttachmentTopic, 32, again}}})
	if n := r.mu.core.naming()[a.Worker]; n != 1 {
		t.Errorf("%d owners name %s, want 1", n, a.Worker)
	}
}

// What a report takes grows with the owners, not with their square, even if all
// name one worker: nothing is withdrawn while it is made.
func TestReportGrowsWithOwners(t *testing.T) {
	const n = 2000
	r := ownersOfOneWorker(t, n)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := r.Owners()
	runtime.ReadMemStats(&after)
	if len(got) != n || !got[0].Shared {
		t.Fatalf("%d owners, shared %v", len(got), got[0].Shared)
	}
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 8<<10 {
		t.Errorf("%d bytes were allocated for each of %d owners, want 8 KiB at most", each, n)
	}
}

func BenchmarkOwnersOfOneWorker(b *testing.B) {
	const n = 8000
	r := ownersOfOneWorker(b, n)
	b.ReportAllocs()
	for b.Loop() {
		if len(r.Owners()) != n {
			b.Fatal("some are missing")
		}
	}
}
