package affinity

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/fleet"
)

// checkDigest compares the digest with one made anew from all records.
func checkDigest(t *testing.T, table *Table) {
	t.Helper()
	got := table.Digest()
	var want Digest
	for _, r := range records(table) {
		if r.Sum != r.Event.Sum() {
			t.Fatalf("record %+v has the sum of another", r)
		}
		want[BucketOf(r.Session)] += r.Sum
	}
	if got != want {
		t.Fatalf("the digest is not that of the records")
	}
}

// checkSubDigest compares the digest of a bucket with one made anew.
func checkSubDigest(t *testing.T, table *Table, bucket uint8) {
	t.Helper()
	var want Digest
	for _, r := range records(table) {
		if BucketOf(r.Session) == bucket {
			want[SubBucketOf(r.Sum)] += r.Sum
		}
	}
	if table.SubDigest(bucket) != want {
		t.Fatalf("the digest of bucket %d is not that of its records", bucket)
	}
}

// TestSubDigestFollowsEveryChange fills one bucket until it keeps its sub-digest,
// then changes and ends what is in it.
func TestSubDigestFollowsEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := newTestTable(t, Config{TTL: time.Hour})
		var names []string
		for i := 0; len(names) < 3*manyMembers; i++ {
			if name := fmt.Sprint("s", i); BucketOf(name) == 7 {
				names = append(names, name)
			}
		}
		for n := range 3 {
			for i, name := range names {
				ev := Event{Session: name, Target: fleet.OnRank(1, 0), Sequence: uint64(n + 1), Life: time.Duration(1+i%5) * time.Minute}
				if i%7 == 0 {
					ev.Kind = EventUnpinned
				}
				table.Apply(ev)
			}
			checkDigest(t, table)
			checkSubDigest(t, table, 7)
		}
		if n := table.BucketLen(7); n != len(names) {
			t.Errorf("%d records in the bucket, want %d", n, len(names))
		}
		for range 6 {
			time.Sleep(time.Minute)
			checkDigest(t, table)
			checkSubDigest(t, table, 7)
		}
		if n := table.BucketLen(7); n != 0 {
			t.Errorf("%d records are left in the bucket", n)
		}
	})
}

// TestDigestFollowsEveryChange mixes replicated and local changes with time.
func TestDigestFollowsEveryChange(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			table, live := newTestTable(t, Config{TTL: 5 * time.Second, MaxSessions: 2})
			leases := map[int]*Lease{}
			for step := range 300 {
				session := fmt.Sprint("s", rng.IntN(6))
				switch rng.IntN(8) {
				case 0, 1:
					e := randomEvents(rng, 1)[0]
					e.Session, e.Life = session, e.Life/600
					if rng.IntN(2) == 0 {
						e.Sequence += uint64(time.Now().UnixNano())
					}
					table.Apply(e)
				case 2:
					ctx, cancel := contextWithin(t, time.Millisecond)
					if l, err := table.Acquire(ctx, session, fleet.Target{}); err == nil {
						leases[step] = &l
					}
					cancel()
				case 3, 4:
					for _, l := range firstOf(leases) {
						_ = l.Bind(fleet.OnRank(fleet.WorkerID(1+rng.IntN(3)), 0))
					}
				case 5:
					for k, l := range firstOf(leases) {
						l.Release(Outcome(rng.IntN(4)))
						delete(leases, k)
					}
				case 6:
					table.Unpin(session)
				case 7:
					time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
					if rng.IntN(4) == 0 {
						live.Publish(fleetOf(fleet.State(rng.IntN(4)), fleet.Active, fleet.Active))
					}
				}
				checkDigest(t, table)
			}
		})
	}
}

func firstOf(leases map[int]*Lease) map[int]*Lease {
	keys := slices.Sorted(maps.Keys(leases))
	if len(keys) == 0 {
		return nil
	}
	return map[int]*Lease{keys[0]: leases[keys[0]]}
}

func TestPartsInUseAreTheWhole(t *testing.T) {
	table, _ := newTestTable(t, Config{})
	for i := range 3000 {
		l := bindTo(t, table, fmt.Sprint("s", i), fleet.OnRank(1, 0))
		if i%3 == 0 {
			l.Release(Completed)
		}
	}
	seen := make(map[string]int)
	for part := range InUseParts {
		for _, ev := range table.InUse(part) {
			seen[ev.Session]++
		}
	}
	for session, n := range seen {
		if n != 1 {
			t.Errorf("%s comes %d times", session, n)
		}
	}
	if len(seen) != 2000 {
		t.Errorf("%d sessions in use, want 2000", len(seen))
	}
}
