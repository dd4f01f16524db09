package reconcile

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

func TestGaugesShowWhatIsKnownNow(t *testing.T) {
	registry := prometheus.NewRegistry()
	r, err := New(Config{
		Live: fleet.NewLive(fleet.NewView(nil)), Index: index.NewSet(index.Config{}), Controller: kvstate.NewController(), Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	ready := kvstate.Resolution{State: kvstate.Ready}
	r.mu.core.owner(testOwner(1)).resolution = ready
	o := r.mu.core.owner(testOwner(2))
	o.resolution, o.holed = ready, true
	o = r.mu.core.owner(testOwner(3))
	o.resolution, o.holed = kvstate.Resolution{State: kvstate.Unknown, Reason: kvstate.WatchUncertain}, true
	o.problem = fmt.Errorf("%w: 16 and 32", errBlockSize)
	r.mu.core.watches[directoryWatch] = &watchState{lost: errors.New("away")}

	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			got[name] = m.Gauge.GetValue()
		}
	}
	for name, want := range map[string]float64{
		"mooring_kvstate_owners  ready":                  2,
		"mooring_kvstate_owners watch_uncertain unknown": 1,
		"mooring_kvstate_owners_holed":                   1, // of those that are projected
		"mooring_kvstate_block_size_errors":              1,
		"mooring_kvstate_watch_uncertain config":         0,
		"mooring_kvstate_watch_uncertain directory":      1,
	} {
		if n, ok := got[name]; !ok || n != want {
			t.Errorf("%s is %v (%v), want %v", name, n, ok, want)
		}
	}
}
