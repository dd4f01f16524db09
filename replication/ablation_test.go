package replication_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/replication"
)

// TestEachRuleIsNeeded reverts rules: the simulation must find the failure. With
// all rules obeyed TestReplicasConverge runs the same seeds. It looks at 36 seeds,
// first at one that is known to fail.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, c := range []struct {
		rule string
		seed uint64
	}{
		{"liveness gates the merge", 0}, {"skip own writer", 1}, {"no digests", 0}, {"no skew limit", 0}, {"floors yield", 0},
		{"floors are renewed", 0}, {"kept loses", 6}, {"clock follows", 2}, {"target unordered", 10}, {"deadlines travel", 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			for i := range uint64(36) {
				seed := (c.seed + i) % 36
				if err := simulate(t, seed, 300, c.rule); err != nil {
					t.Logf("seed %d: %s", seed, firstLine(err))
					return
				}
			}
			t.Error("no seed fails without the rule")
		})
	}
}

// TestSuppressedRefreshIsSentLater uses a session again within the interval: the
// peer must keep it for as long as the user does, which without the trailing edge
// it does not.
func TestSuppressedRefreshIsSentLater(t *testing.T) {
	for rule, lacking := range map[string]int{"": 0, "leading-edge refresh": 1} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, setup{seed: 1, n: 2, ttl: 80 * time.Second, ablate: rule})
			c.run(time.Second)
			for range 2 {
				l, err := c.open(c.replicas[0], "s", 1)
				if err != nil {
					t.Fatal(err)
				}
				l.Release(affinity.Completed)
				c.run(5 * time.Second)
			}
			c.run(75*time.Second + 100*time.Millisecond - 5*time.Second)
			if got := len(c.differing()); got != lacking {
				t.Errorf("rule %q reverted: %d records differ, want %d", rule, got, lacking)
			}
		})
	}
}

// TestRulesSaveTraffic counts what the rules against needless messages save:
// with each it is at most as much as said, and more without it.
func TestRulesSaveTraffic(t *testing.T) {
	for _, c := range []struct {
		rule  string
		setup setup
		most  int
		count func(*testing.T, *cluster) int
	}{
		{"holes trigger", setup{seed: 1, n: 5, ttl: 30 * time.Minute}, 5 * 2 * 15, messagesUnderLoss},
		{"no have", setup{seed: 1, n: 2, ttl: 30 * time.Minute}, 10, recordsToRepairTen},
		{"no refused", setup{seed: 1, n: 2, ttl: 30 * time.Minute}, 2, recordsThatAreRefused},
		{"resend always", setup{seed: 1, n: 5, ttl: 30 * time.Minute}, 20, recordsForFourJoiners},
		{"resend the dying", setup{seed: 1, n: 2, ttl: 30 * time.Second, digest: 100 * time.Millisecond}, 0, recordsAboutToExpire},
		{"full asks for all", setup{seed: 1, n: 2, ttl: 30 * time.Minute, max: 20}, 2 * 10, bucketsWantedByTheFull},
		{"full asks for all", setup{seed: 1, n: 2, ttl: 30 * time.Minute}, 2500, floorsForTheSmall},
	} {
		t.Run(c.rule, func(t *testing.T) {
			counted := make(map[string]int)
			for _, rule := range []string{"", c.rule} {
				synctest.Test(t, func(t *testing.T) {
					c.setup.ablate = rule
					counted[rule] = c.count(t, newCluster(t, c.setup))
				})
			}
			t.Logf("%d, and %d without the rule", counted[""], counted[c.rule])
			if counted[""] > c.most || counted[c.rule] <= 2*c.most {
				t.Errorf("%d with the rule, at most %d; %d without it, more than twice that", counted[""], c.most, counted[c.rule])
			}
		})
	}
}

// opened uses n sessions at a replica, one after the other.
func (c *cluster) opened(t *testing.T, r *replica, prefix string, n int) {
	for i := range n {
		h, err := c.open(r, fmt.Sprint(prefix, i), 1)
		if err != nil {
			t.Fatal(err)
		}
		h.Release(affinity.Completed)
	}
}

// events counts the binding events that replica 0 sends from now on.
func (c *cluster) events() (n *int) {
	n = new(int)
	c.sent = func(from int, m replication.Message) {
		if from == 0 && m.Topic == replication.TopicV2 {
			*n++
		}
	}
	return n
}

// messagesUnderLoss: replicas that agree, in a minute in which half of all
// messages are lost. Each sends a digest and a sign of life every 4 to 5 s.
func messagesUnderLoss(t *testing.T, c *cluster) int {
	c.opened(t, c.replicas[0], "s", 20)
	c.run(20 * time.Second)
	c.net.Loss = 0.5
	n := c.net.Sent()
	c.run(time.Minute)
	return c.net.Sent() - n
}

// recordsToRepairTen: a peer has 2,000 bindings and lacks ten others.
func recordsToRepairTen(t *testing.T, c *cluster) int {
	c.opened(t, c.replicas[0], "s", 2000)
	c.run(10 * time.Second)
	c.net.Cut(0, 1)
	c.opened(t, c.replicas[0], "new", 10)
	c.run(5 * time.Second)
	c.net.Heal()
	n := c.events()
	c.run(12500 * time.Millisecond)
	if lacks := c.differing(); len(lacks) > 0 {
		t.Errorf("%d records are still lacking", len(lacks))
	}
	return *n
}

// recordsThatAreRefused: replica 0, whose clock is ahead, has a binding from so far
// in the future that the other refuses it, for as long as that may be.
func recordsThatAreRefused(_ *testing.T, c *cluster) int {
	c.replicas[0].skew = 10 * time.Minute
	e := plainEvent("s", 1, uint64(time.Now().Add(65*time.Minute).UnixNano()), 9)
	e.SenderID, e.SenderSeq = 5, 1
	c.net.Send(time.Now(), -1, 2, []replication.Message{{Topic: replication.TopicV2, Payload: replication.AppendEvent(nil, &e)}})
	c.run(time.Second)
	n := c.events()
	c.run(time.Minute)
	return *n
}

// recordsForFourJoiners: four replicas start at once and ask the fifth for its
// 20 bindings.
func recordsForFourJoiners(t *testing.T, c *cluster) int {
	c.opened(t, c.replicas[0], "s", 20)
	c.run(2 * time.Second)
	for _, r := range c.replicas[1:] {
		c.start(r)
	}
	n := c.events()
	c.run(time.Second)
	if lacks := c.differing(); len(lacks) > 0 {
		t.Errorf("%d records are still lacking", len(lacks))
	}
	return *n
}

// recordsAboutToExpire: replica 0 heard of 20 bindings a second late, and so
// keeps them for a second longer than the other, with which it compares notes.
func recordsAboutToExpire(t *testing.T, c *cluster) int {
	c.run(time.Second)
	c.net.MinDelay, c.net.MaxDelay = time.Second, 1001*time.Millisecond
	c.opened(t, c.replicas[1], "s", 20)
	c.run(20 * time.Millisecond)
	c.net.MinDelay, c.net.MaxDelay = time.Millisecond, 2*time.Millisecond
	c.run(20 * time.Second)
	n := c.events()
	c.run(15 * time.Second)
	return *n
}

// bucketsWantedByTheFull: two replicas that have no room for what the other has,
// in a minute.
func bucketsWantedByTheFull(_ *testing.T, c *cluster) (buckets int) {
	for i := range 100 {
		for j := range 2 {
			e := plainEvent(fmt.Sprint(j, "s", i), 1, uint64(time.Now().UnixNano()), 9)
			c.net.Fly(time.Now(), j, replication.Message{Topic: replication.TopicV2, Payload: replication.AppendEvent(nil, &e)})
		}
	}
	c.run(10 * time.Second)
	c.sent = func(_ int, m replication.Message) {
		if m.Topic != replication.TopicSync {
			return
		}
		if w, err := replication.DecodeSync(m.Payload); err == nil && w.Type == replication.Want {
			buckets += len(w.Buckets)
		}
	}
	c.run(time.Minute)
	return buckets
}

// floorsForTheSmall: a replica that has room for 100 floors beside one that has
// 2,000, in a minute.
func floorsForTheSmall(_ *testing.T, c *cluster) (floors int) {
	for i := range 2000 {
		c.replicas[0].table().Unpin(fmt.Sprint("s", i))
	}
	c.max = 100
	c.start(c.replicas[1])
	c.run(20 * time.Second)
	sent := c.syncsOf(replication.Floor)
	c.run(time.Minute)
	for _, n := range sent {
		floors += n
	}
	return floors
}
