package reconcile

import "time"

const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 5 * time.Second
)

// pause is the time between attempts that fail: it doubles from shortestPause to
// longestPause, and begins anew when the last attempt is long ago. The zero value
// is ready.
type pause struct {
	last  time.Duration
	until time.Time // no attempt before
}

func (p *pause) begin(now time.Time) {
	if now.Sub(p.until) > 2*longestPause {
		p.last = 0
	}
	p.last = min(max(2*p.last, shortestPause), longestPause)
	p.until = now.Add(p.last)
}
