package replication

import (
	"math"
	"math/rand/v2"
	"testing"

	"mooring/affinity"
)

func TestSessionsInBuckets(t *testing.T) {
	for buckets, want := range map[int]int{0: 0, 1: 1, 5: 5, 10: 10, affinity.Buckets: 1597} {
		if got := sessionsIn(buckets); got != want {
			t.Errorf("%d buckets: about %d sessions, want %d", buckets, got, want)
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, sessions := range []int{20, 100, 300, 600} {
		var hit [affinity.Buckets]bool
		buckets := 0
		for range sessions {
			if b := rng.IntN(len(hit)); !hit[b] {
				hit[b] = true
				buckets++
			}
		}
		if got := sessionsIn(buckets); math.Abs(float64(got-sessions)) > 0.2*float64(sessions) {
			t.Errorf("%d sessions in %d buckets: estimated %d", sessions, buckets, got)
		}
	}
}
