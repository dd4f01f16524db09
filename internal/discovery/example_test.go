package discovery_test

import (
	"context"
	"fmt"
	"time"

	"mooring/internal/discovery"
)

func Example() {
	d := discovery.New(discovery.Config{Grace: 30 * time.Second}) // no Health.Path: nobody is probed
	d.Update("static", []discovery.Spec{{Address: "10.0.0.7:8000"}, {Address: "10.0.0.8:8000", Drain: true}})

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	<-d.Settled()
	for _, w := range d.Live().View().Workers() {
		fmt.Println(w.Address, w.State)
	}
	cancel()
	fmt.Println(<-ended)
	// Unordered output:
	// 10.0.0.7:8000 active
	// 10.0.0.8:8000 draining
	// <nil>
}
