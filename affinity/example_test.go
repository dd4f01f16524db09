package affinity_test

import (
	"context"
	"fmt"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// The life of one conversation: the first turn chooses a worker, the second
// comes home, and after its worker has gone the third one moves.
func Example() {
	partition := fleet.Partition{Model: "llama", Group: "default"}
	worker := func(id fleet.WorkerID, s fleet.State) fleet.Worker {
		return fleet.Worker{ID: id, Address: "10.0.0.7:8000", Models: []string{"llama"}, Group: "default", Ranks: 1, State: s}
	}
	live := fleet.NewLive(fleet.NewView([]fleet.Worker{worker(1, fleet.Active), worker(2, fleet.Active)}))
	sessions, err := affinity.NewResolver(live, affinity.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	table, _ := sessions.Table(partition)

	turn := func(choice fleet.Target) {
		lease, err := table.Acquire(context.Background(), "conv-42", fleet.Target{})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer lease.Release(affinity.Completed)
		target, bound := lease.Target()
		if !bound {
			target = choice
			if err := lease.Bind(target); err != nil {
				fmt.Println(err)
				return
			}
		}
		fmt.Printf("to worker %v, bound before: %v, moved: %v\n", target, bound, lease.Moved())
	}
	turn(fleet.OnRank(1, 0))
	turn(fleet.OnRank(2, 0))
	live.Publish(fleet.NewView([]fleet.Worker{worker(1, fleet.Unhealthy), worker(2, fleet.Active)}))
	turn(fleet.OnRank(2, 0))

	// Output:
	// to worker 1:0, bound before: false, moved: false
	// to worker 1:0, bound before: true, moved: false
	// to worker 2:0, bound before: false, moved: true
}
