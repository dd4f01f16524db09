package replication_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
)

// TestEachRuleIsNeeded reverts rules: the simulation must find the failure. With
// all rules obeyed TestReplicasConverge runs the same seeds.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, rule := range []string{
		"liveness gates the merge", "skip own writer", "no digests", "no skew limit", "floors yield", "floors are renewed", "kept loses",
		"clock follows", "target unordered", "deadlines travel",
	} {
		t.Run(rule, func(t *testing.T) {
			for seed := range uint64(36) {
				if err := simulate(t, seed, 300, rule); err != nil {
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
