package reconcile

import (
	"testing"
	"time"
)

// The changes of an owner that settles are all told, its last one too; those of one
// that changes all the time are not, until it has been told too much for long enough.
func TestOnlyAnOwnerThatFlapsIsNotToldOf(t *testing.T) {
	var o owner
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range changesTold {
		if o.flaps(now.Add(time.Duration(i) * time.Millisecond)) {
			t.Fatalf("change %d is not told", i+1)
		}
	}
	if !o.flaps(now.Add(time.Second)) || !o.flaps(now.Add(changesIn-time.Millisecond)) {
		t.Error("an owner that flaps is told of")
	}
	if o.flaps(now.Add(changesIn)) {
		t.Error("after a minute it is not told of")
	}
}
