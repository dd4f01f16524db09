package replication_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
)

// syncsOf counts the messages of one type, by who sends them to whom, or to all.
func (c *cluster) syncsOf(kind replication.SyncType) map[[2]uint64]int {
	n := make(map[[2]uint64]int)
	c.sent = func(_ int, m replication.Message) {
		if s, err := replication.DecodeSync(m.Payload); m.Topic == replication.TopicSync && err == nil && s.Type == kind {
			n[[2]uint64{s.SenderID, s.To}]++
		}
	}
	return n
}

// TestFullFloorsSettle has replicas that are cut off from one another unpin more
// sessions than each may remember, many at the same moment. Which of those end
// first is not the same everywhere; they stay in few wants all the same.
func TestFullFloorsSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 500
		c := newCluster(t, setup{seed: 1, n: 3, ttl: 30 * time.Minute, max: limit})
		c.run(time.Second)
		for i := range c.replicas {
			c.net.Cut(i, (i+1)%3)
		}
		for i := range 2 * limit {
			for j, r := range c.replicas {
				r.table().Unpin(fmt.Sprint(j, "-", i))
			}
			if i%10 == 0 {
				c.run(20 * time.Millisecond)
			}
		}
		c.net.Heal()
		c.run(2 * time.Minute)
		if n := len(c.differing()); n > limit/10 {
			t.Errorf("%d of %d floors differ two minutes later", n, limit)
		}
		wants := c.syncsOf(replication.Want)
		c.run(time.Minute)
		for pair, n := range wants {
			if n > 10 {
				t.Errorf("%d wants of %d to %d in a calm minute", n, pair[0], pair[1])
			}
		}
		// What is lost meanwhile is repaired as ever.
		c.net.Cut(0, 1)
		c.net.Cut(0, 2)
		c.opened(t, c.replicas[0], "s", 10)
		c.run(time.Second)
		c.net.Heal()
		c.run(12500 * time.Millisecond)
		for i := range 10 {
			if _, ok := c.replicas[1].table().Lookup(fmt.Sprint("s", i)); !ok {
				t.Errorf("binding %d is lacking after 12.5 s", i)
			}
		}
	})
}

// TestRoomForReplicasIsUsed has a replica with more sessions than it may bind, and
// fewer than it may be told of: it is not full, and asks for all that it lacks.
func TestRoomForReplicasIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100
		c := newCluster(t, setup{seed: 1, n: 2, ttl: 30 * time.Minute, max: limit})
		c.run(time.Second)
		for i := range limit * 19 / 10 {
			for j, r := range c.replicas {
				if i < limit*3/2 || j == 0 {
					r.table().Apply(affinity.Event{
						Session: fmt.Sprint("s", i), Target: fleet.OnRank(1, 0), Sequence: uint64(1 + i), WriterID: 3, Life: 20 * time.Minute,
					})
				}
			}
		}
		c.run(6 * time.Second)
		if n := len(c.differing()); n > 0 {
			t.Errorf("%d of %d records are lacking after a comparison", n, limit*4/10)
		}
	})
}
