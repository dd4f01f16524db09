package kvstate_test

import (
	"fmt"

	"mooring/kvstate"
)

// A resolution follows from discovery, liveness, the agent's own word and what was
// recovered from it; the projection follows from all resolutions.
func Example() {
	in := kvstate.Inputs{
		DiscoveryKnown: true,
		Owner:          owner(4),
		Sources:        []kvstate.SourceAdvertisement{source()},
		Attachments:    []kvstate.AttachmentAdvertisement{attachment()},
		Live:           func(w kvstate.Worker) bool { return w == worker() },
	}
	controller := kvstate.NewController()
	show := func() {
		r := kvstate.Resolve(in)
		controller.Update(r)
		w, _, ok := controller.Projection().Worker(in.Owner.Key())
		fmt.Println(r.State, r.Reasons, w, ok)
	}
	show()
	agent := status()
	in.Status = &agent
	show()
	recovered := receipt()
	in.Receipt = &recovered
	show()
	// Output:
	// unknown [endpoint_unreachable recovery_behind_barrier] 0:0 false
	// unknown [recovery_behind_barrier] 0:0 false
	// ready [] 17:3 true
}
