package reconcile

import (
	"testing"
	"time"
)

func TestPausesDoubleAndBeginAnew(t *testing.T) {
	var p pause
	now := time.Unix(0, 0)
	for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		p.begin(now)
		if got := p.until.Sub(now); got != want*time.Millisecond {
			t.Errorf("paused %s, want %s", got, want*time.Millisecond)
		}
		now = p.until
	}
	now = now.Add(2*longestPause + 1)
	if p.begin(now); p.until.Sub(now) != shortestPause {
		t.Errorf("after a long quiet time paused %s", p.until.Sub(now))
	}
}
