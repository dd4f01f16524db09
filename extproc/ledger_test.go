package extproc

import (
	"context"
	"testing"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/routing"
)

func TestASoftBindingFollowsTheWorkerThatServed(t *testing.T) {
	for _, tt := range []struct {
		mode  affinity.Mode
		moves bool
	}{{affinity.Soft, true}, {affinity.Hard, false}} {
		live := fleet.NewLive(fleet.NewView([]fleet.Worker{testWorker(1, fleet.DefaultName, 1, "m"), testWorker(2, fleet.DefaultName, 1, "m")}))
		sessions, err := affinity.NewResolver(live, affinity.Config{Mode: tt.mode, WriterID: 1})
		if err != nil {
			t.Fatal(err)
		}
		router := routing.NewRouter(live, sessions, routing.Config{})
		request := routing.Request{Session: "s", Group: fleet.DefaultName}
		first, err := router.Route(context.Background(), &request)
		if err != nil {
			t.Fatal(err)
		}
		ledger := newLedger(1, 10, newMetrics())
		id, _ := ledger.add(first, joinKey{}, nil)
		other := map[string]string{"10.0.0.1:8000": "10.0.0.2:8000", "10.0.0.2:8000": "10.0.0.1:8000"}[first.Address]
		if _, ok := ledger.endServed(id, affinity.Completed, other, byAccessLog); !ok {
			t.Fatal("the lease is unknown")
		}
		second, err := router.Route(context.Background(), &request)
		if err != nil {
			t.Fatal(err)
		}
		if moved := second.Address == other; moved != tt.moves {
			t.Errorf("%v: the session is on %s after %s served it, moved %v; want %v", tt.mode, second.Address, other, moved, tt.moves)
		}
		second.Release(affinity.Completed)
	}
}
