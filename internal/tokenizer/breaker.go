package tokenizer

import (
	"slices"
	"sync"
	"time"
)

const (
	// failuresToOpen is after how many failures in a row an endpoint is left alone.
	failuresToOpen = 5
	// firstPause is for how long, doubled by each failed trial up to longestPause.
	firstPause   = time.Second
	longestPause = 30 * time.Second
	// maxBreakers bounds the failing endpoints that are remembered.
	maxBreakers = 4096
)

// breakers are the circuits of all endpoints. Only those that failed last are in
// here: a success forgets the failures before it. Safe for concurrent use.
type breakers struct {
	mu struct {
		sync.Mutex
		failing map[string]*breaker
	}
}

// breaker is the circuit of one endpoint.
type breaker struct {
	failures int       // in a row
	last     Outcome   // of the last of them
	at       time.Time // when that was
	pause    time.Time // until then it is not called, once failures are enough
	trial    bool      // one call finds out whether it works again
}

func newBreakers() *breakers {
	b := &breakers{}
	b.mu.failing = make(map[string]*breaker)
	return b
}

// enter reports whether an endpoint may be called at now. If so, the caller must
// call leave with how that went.
func (b *breakers) enter(endpoint string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	circuit := b.mu.failing[endpoint]
	switch {
	case circuit == nil || circuit.failures < failuresToOpen:
		return true
	case circuit.trial || now.Before(circuit.pause):
		return false
	default:
		circuit.trial = true
		return true
	}
}

// leave notes how a call of an endpoint went. It reports whether that opened its
// circuit, or closed it.
func (b *breakers) leave(endpoint string, o Outcome, now time.Time) (opened, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	circuit := b.mu.failing[endpoint]
	switch o.verdict() {
	case works:
		closed = circuit != nil && circuit.failures >= failuresToOpen
		delete(b.mu.failing, endpoint)
	case fails:
		if circuit == nil {
			circuit = b.addLocked(endpoint)
		}
		circuit.fail(o, now)
		opened = circuit.failures == failuresToOpen
	case silent:
		if circuit != nil {
			circuit.trial = false
		}
	}
	return opened, closed
}

func (c *breaker) fail(o Outcome, now time.Time) {
	c.trial = false
	c.failures++
	c.last, c.at = o, now
	if beyond := c.failures - failuresToOpen; beyond >= 0 {
		c.pause = now.Add(min(firstPause<<min(beyond, 10), longestPause))
	}
}

// addLocked makes room for one more, at the cost of any other.
func (b *breakers) addLocked(endpoint string) *breaker {
	if len(b.mu.failing) >= maxBreakers {
		for other := range b.mu.failing {
			delete(b.mu.failing, other)
			break
		}
	}
	c := &breaker{}
	b.mu.failing[endpoint] = c
	return c
}

// open returns the endpoints whose circuits are open and that failed lately, with
// how, ordered.
func (b *breakers) open(now time.Time) []string {
	const lately = longestPause // who is not asked any more is not told of for ever
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for endpoint, circuit := range b.mu.failing {
		if circuit.failures >= failuresToOpen && now.Sub(circuit.at) < lately {
			all = append(all, endpoint+" ("+circuit.last.String()+")")
		}
	}
	slices.Sort(all)
	return all
}
