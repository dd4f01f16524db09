package replication_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// TestPartitionsAreNarrowedTogether has two replicas differ in a large bucket of
// each partition: however many there are, the next comparison repairs them all.
func TestPartitionsAreNarrowedTogether(t *testing.T) {
	for _, parts := range []int{1, 2, 40} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, setup{seed: 1, n: 2, ttl: 30 * time.Minute, parts: parts})
			c.run(time.Second)
			for i, n := 0, 0; n < 301; i++ {
				ev := affinity.Event{Session: fmt.Sprint("s", i), Target: fleet.OnRank(1, 0), Sequence: 1, WriterID: 3, Life: 20 * time.Minute}
				if affinity.BucketOf(ev.Session) != 7 {
					continue
				}
				for j, r := range c.replicas {
					for p := range parts {
						ev.Sequence = uint64(1 + p) // no two records have one version
						if table, _ := r.sessions.Table(partNumber(p)); n > 0 || j == 0 {
							table.Apply(ev)
						}
					}
				}
				n++
			}
			c.run(6 * time.Second)
			differ := 0
			for p := range parts {
				a, _ := c.replicas[0].sessions.Table(partNumber(p))
				b, _ := c.replicas[1].sessions.Table(partNumber(p))
				if a.Digest() != b.Digest() {
					differ++
				}
			}
			if differ > 0 {
				t.Errorf("%d of %d partitions still differ after 6 s", differ, parts)
			}
		})
	}
}
