package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/feed"
	"mooring/kvstate/index"
)

func TestProblemsNameEnginesOutOfReach(t *testing.T) {
	r, err := New(Config{Live: fleet.NewLive(fleet.NewView(nil)), Index: index.NewSet(index.Config{}), Controller: kvstate.NewController()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		o := r.mu.core.owner(kvstate.CacheOwnerID{Pool: kvstate.PoolID{DC: kvstate.DCID(i)}})
		o.problem, o.since = fmt.Errorf("worker w-%d: %w", i, feed.ErrDisconnected), time.Now().Add(-time.Minute)
		if i >= 25 {
			o.since = time.Now() // it has just been lost
		}
	}
	got := r.Problems()
	if len(got) != maxProblems+1 {
		t.Fatalf("%d problems, want %d and one for the rest: %q", len(got), maxProblems, got)
	}
	if all := strings.Join(got, "\n"); !strings.Contains(all, "5 more cache owners") || !strings.Contains(all, "worker w-") {
		t.Errorf("got\n%s", all)
	}
}
