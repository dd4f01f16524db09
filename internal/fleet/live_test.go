package fleet_test

import (
	"testing"

	"mooring/internal/fleet"
)

func TestSnapshotTellsWhenItsViewWasReplaced(t *testing.T) {
	first, second := fleet.NewView(nil), fleet.NewView(nil)
	live := fleet.NewLive(first)
	view, changed := live.Snapshot()
	if view != first {
		t.Fatal("want the first view")
	}
	select {
	case <-changed:
		t.Fatal("told of a change before there was one")
	default:
	}
	live.Publish(second)
	<-changed
	if live.View() != second {
		t.Error("want the second view")
	}
	select {
	case <-func() <-chan struct{} { _, c := live.Snapshot(); return c }():
		t.Error("the second view is not replaced yet")
	default:
	}
}
