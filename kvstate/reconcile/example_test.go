package reconcile_test

import (
	"context"
	"fmt"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
	"mooring/kvstate/reconcile"
)

// A worker that is configured without KV events has no cache owner.
func Example() {
	view := fleet.NewView([]fleet.Worker{
		{ID: 7, Address: "10.0.0.7:8000", Models: []string{"llama"}, Group: "default", Ranks: 1, State: fleet.Active},
	})
	controller := kvstate.NewController()
	r, err := reconcile.New(reconcile.Config{
		Live: fleet.NewLive(view), Index: index.NewSet(index.Config{}), Controller: controller,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	<-r.Settled()
	state, _ := r.Worker(kvstate.Worker{WorkerID: 7})
	fmt.Println(state, len(r.Owners()), controller.Projection().Len())
	stop()
	fmt.Println(<-ended)
	// Output:
	// none 0 0
	// <nil>
}
