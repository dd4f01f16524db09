package extproc

import (
	"sync"
	"time"
)

// complainEvery bounds how often one misconfiguration is logged: each request
// meets it anew.
const complainEvery = time.Minute

// complaints remembers what was logged when. The zero value has logged nothing.
// Safe for concurrent use. Its keys are the closed list of mode.go.
type complaints struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// due reports whether it is time to log about problem again.
func (c *complaints) due(problem string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, ok := c.last[problem]; ok && now.Sub(last) < complainEvery {
		return false
	}
	if c.last == nil {
		c.last = make(map[string]time.Time)
	}
	c.last[problem] = now
	return true
}
