package index

import "testing"

func TestWindowsAddUp(t *testing.T) {
	ix := newIndex(10, newMetrics())
	if got := ix.Windows(); got != Plain {
		t.Errorf("nothing stored: %b, want plain", got)
	}
	for _, step := range []struct{ add, want Windows }{{Eagle, Eagle}, {Eagle, Eagle}, {Plain, Plain | Eagle}, {Eagle, Plain | Eagle}} {
		if ix.AddWindows(step.add); ix.Windows() != step.want {
			t.Errorf("after %b: %b, want %b", step.add, ix.Windows(), step.want)
		}
	}
}
