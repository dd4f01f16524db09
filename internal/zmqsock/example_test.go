package zmqsock_test

import (
	"context"
	"fmt"

	"mooring/internal/zmqsock"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p, err := zmqsock.Listen(ctx, zmqsock.PublisherConfig{Endpoint: "tcp://127.0.0.1:0"})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	s, err := zmqsock.NewSubscriber(zmqsock.SubscriberConfig{Endpoint: p.Endpoint(), Topics: []string{"weather"}})
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()

	// A subscription takes a moment to arrive: publish until it has.
	for p.Stats().Queued == 0 {
		if err := p.Publish([][]byte{[]byte("weather"), []byte("fog")}); err != nil {
			panic(err)
		}
	}
	m := <-s.Messages()
	fmt.Printf("%q on connection %d\n", m.Frames, m.Connection)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// ["weather" "fog"] on connection 1
	// context canceled
}
