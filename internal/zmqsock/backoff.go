package zmqsock

import (
	"math/rand/v2"
	"time"
)

// backoff gives the pauses between attempts that fail: doubling from shortest
// to longest, less up to half at random, so that peers that lost the same
// publisher at once do not come back at once.
type backoff struct {
	shortest, longest time.Duration
	last              time.Duration // before the jitter; zero: start anew
}

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, b.shortest), b.longest)
	return b.last - rand.N(b.last/2+1)
}
