package routing

import (
	"context"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// TestAPeersBindingThatCameMeanwhileIsObeyed has a replica's binding arrive while
// a request has the turn to choose: the request goes where the session is bound.
func TestAPeersBindingThatCameMeanwhileIsObeyed(t *testing.T) {
	member := func(id fleet.WorkerID, address string) fleet.Worker {
		return fleet.Worker{ID: id, Address: address, Models: []string{"m"}, Group: fleet.DefaultName, Ranks: 1, State: fleet.Active}
	}
	live := fleet.NewLive(fleet.NewView([]fleet.Worker{member(1, "10.0.0.1:80"), member(2, "10.0.0.2:80")}))
	sessions, err := affinity.NewResolver(live, affinity.Config{WriterID: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := NewRouter(live, sessions, Config{})
	p := fleet.Partition{Model: "m", Group: fleet.DefaultName}
	table, _ := sessions.Table(p)
	lease, err := table.Acquire(context.Background(), "s", fleet.Target{})
	if err != nil {
		t.Fatal(err)
	}
	busy := fleet.OnRank(2, 0)
	r.load.add(busy) // so that the choice would fall on worker 1
	table.Apply(affinity.Event{
		Kind: affinity.EventBound, Session: "s", Target: busy,
		Sequence: uint64(time.Now().Add(time.Minute).UnixNano()), WriterID: 2, Life: time.Minute,
	})
	rt := &Route{Partition: p, Session: "s", router: r, lease: lease}
	if err := r.place(context.Background(), rt, &Request{Session: "s", Group: fleet.DefaultName}); err != nil {
		t.Fatal(err)
	}
	if rt.Target != busy || rt.Address != "10.0.0.2:80" || rt.Reason != Bound {
		t.Errorf("the request goes to %v at %s, %v; want the peer's %v, bound", rt.Target, rt.Address, rt.Reason, busy)
	}
	if a, b := r.Live(fleet.OnRank(1, 0)), r.Live(busy); a != 0 || b != 2 {
		t.Errorf("live requests are %d and %d, want 0 and 2", a, b)
	}
	rt.Release(affinity.Completed)
	if b := r.Live(busy); b != 1 {
		t.Errorf("live requests after the release are %d, want 1", b)
	}
}
