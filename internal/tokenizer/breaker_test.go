package tokenizer

import (
	"fmt"
	"testing"
	"time"
)

func TestFailingEndpointsAreBoundedAndForgotten(t *testing.T) {
	b, now := newBreakers(), time.Now()
	for i := range maxBreakers + 100 {
		for range failuresToOpen {
			b.leave(fmt.Sprint(i), Failed, now)
		}
	}
	if n := len(b.open(now)); n != maxBreakers {
		t.Errorf("%d endpoints are remembered, want %d", n, maxBreakers)
	}
	if n := len(b.open(now.Add(longestPause))); n != 0 {
		t.Errorf("%d endpoints that nobody asks any more are told of", n)
	}
}
