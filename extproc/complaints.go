package extproc

import (
	"sync"
	"time"
)

// complainEvery bounds how often one misconfiguration is logged: each request
// meets it anew.
const complainEvery = time.Minute

// maxComplaints bounds the problems that are told apart: they name what Envoy
// sent. Beyond it nothing new is logged; all is counted.
const maxComplaints = 64

// complaints remembers what was logged when. The zero value has logged nothing.
// Safe for concurrent use.
type complaints struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// due reports whether it is time to log about problem again.
func (c *complaints) due(problem string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.last[problem]
	if known && now.Sub(last) < complainEvery || !known && len(c.last) >= maxComplaints {
		return false
	}
	if c.last == nil {
		c.last = make(map[string]time.Time)
	}
	c.last[problem] = now
	return true
}
