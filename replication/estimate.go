package replication

import (
	"math"

	"mooring/affinity"
)

// sessionsIn estimates how many sessions differ if they fall into so many
// different buckets: a few are in buckets of their own, more of them meet. When all
// buckets differ it says 1,597, which stands for that or more.
func sessionsIn(buckets int) int {
	free := max(float64(affinity.Buckets-buckets), 0.5)
	return int(math.Round(affinity.Buckets * math.Log(affinity.Buckets/free)))
}
