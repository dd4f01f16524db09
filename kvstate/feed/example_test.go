package feed_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tinylib/msgp/msgp"

	"mooring/internal/fleet"
	"mooring/internal/zmqsock"
	"mooring/kvstate"
	"mooring/kvstate/feed"
	"mooring/kvstate/index"
)

// An engine that has published one batch, [ts, [["AllBlocksCleared"]]], before
// the feed came: the feed gets it by replay.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	batch := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 2), 0)
	batch = msgp.AppendString(msgp.AppendArrayHeader(msgp.AppendArrayHeader(batch, 1), 1), "AllBlocksCleared")
	publisher, err := zmqsock.Listen(ctx, zmqsock.PublisherConfig{Endpoint: "tcp://127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer publisher.Close()
	replays, err := zmqsock.ListenRouter(ctx, zmqsock.RouterConfig{
		Endpoint: "tcp://127.0.0.1:0",
		Serve: func(_ context.Context, request [][]byte, reply func(...[]byte) error) error {
			if err := reply(nil, make([]byte, 8), batch); err != nil {
				return err
			}
			return reply(nil, binary.BigEndian.AppendUint64(nil, ^uint64(0)), nil)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer replays.Close()

	changed := make(chan struct{}, 1)
	f, err := feed.New(feed.Config{
		Endpoint: publisher.Endpoint(), Replay: replays.Endpoint(),
		Worker: kvstate.Worker{WorkerID: 7}, PublisherID: 1,
		Index: index.NewSet(index.Config{}).Open(fleet.Partition{Model: "default", Group: "default"}),
		Changed: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	for f.Details().State != feed.Following {
		<-changed
	}
	fmt.Println(f.Details().State, "after batch", f.Details().LastSeq, "holed:", f.Details().Holed)
	cancel()
	fmt.Println(<-ended)
	f.Forget()

	// Output:
	// following after batch 0 holed: false
	// context canceled
}
