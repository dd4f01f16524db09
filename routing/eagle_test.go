package routing_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"mooring/affinity"
	"mooring/internal/zmqsock"
	"mooring/kvstate"
	"mooring/kvstate/blockhash"
	"mooring/kvstate/feed"
	"mooring/routing"
)

// storeBatch is an engine's batch that stores a prompt's blocks, its tokens alone or,
// as engines with Eagle speculation send them, each with the one after it.
func storeBatch(tokens []uint32, pairs bool) []byte {
	n := len(tokens)
	if pairs {
		n--
	}
	b := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 2), 0)
	b = msgp.AppendString(msgp.AppendArrayHeader(msgp.AppendArrayHeader(b, 1), 5), "BlockStored")
	b = msgp.AppendArrayHeader(b, uint32(n/blockSize))
	for i := range n / blockSize {
		b = msgp.AppendUint64(b, uint64(100+i))
	}
	b = msgp.AppendArrayHeader(msgp.AppendNil(b), uint32(n))
	for i := range n {
		if pairs {
			b = msgp.AppendUint32(msgp.AppendArrayHeader(b, 2), tokens[i])
			b = msgp.AppendUint32(b, tokens[i+1])
		} else {
			b = msgp.AppendUint32(b, tokens[i])
		}
	}
	return msgp.AppendInt(b, blockSize)
}

// publishes makes an engine on w whose first batch was missed, with a feed that gets
// it by replay.
func (k *kvRig) publishes(w kvstate.Worker, batch []byte) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	k.t.Cleanup(cancel)
	publisher, err := zmqsock.Listen(ctx, zmqsock.PublisherConfig{Endpoint: "tcp://127.0.0.1:0"})
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = publisher.Close() })
	replays, err := zmqsock.ListenRouter(ctx, zmqsock.RouterConfig{
		Endpoint: "tcp://127.0.0.1:0",
		Serve: func(_ context.Context, _ [][]byte, reply func(...[]byte) error) error {
			if err := reply(nil, make([]byte, 8), batch); err != nil {
				return err
			}
			return reply(nil, binary.BigEndian.AppendUint64(nil, ^uint64(0)), nil)
		},
	})
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = replays.Close() })
	changed := make(chan struct{}, 1)
	f, err := feed.New(feed.Config{
		Endpoint: publisher.Endpoint(), Replay: replays.Endpoint(), Worker: w, PublisherID: 1 + w.WorkerID, Index: k.index,
		Changed: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		k.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	k.t.Cleanup(func() { cancel(); <-ended })
	for f.Details().State != feed.Following {
		select {
		case <-changed:
		case <-ctx.Done():
			k.t.Fatalf("the feed never followed: %+v", f.Details())
		}
	}
}

// An engine with Eagle speculation, an engine without, and both in one partition.
func TestPromptsOfEagleEnginesAreFound(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"), worker(3, "m"))
	speculative, ordinary := run(100, 8*blockSize+1), run(900, 8*blockSize)
	k.publishes(rankOf(2, 0), storeBatch(speculative, true))
	k.projects(rankOf(2, 0), false)
	k.wantWorker("eagle alone", idsBody(speculative), 2, 8)
	// The token after its last block is not known yet.
	k.wantWorker("a token less", idsBody(speculative[:8*blockSize]), 2, 7)

	k.publishes(rankOf(3, 0), storeBatch(ordinary, false))
	k.projects(rankOf(3, 0), false)
	k.wantWorker("eagle beside another", idsBody(speculative), 2, 8)
	k.wantWorker("another beside eagle", idsBody(ordinary), 3, 8)

	// Who has more of it, whatever the windows.
	k.holds(rankOf(1, 0), kvstate.Device, plain, speculative[:4*blockSize]...)
	k.projects(rankOf(1, 0), false)
	k.wantWorker("more by eagle", idsBody(speculative), 2, 8)
	k.holds(rankOf(1, 0), kvstate.Device, blockhash.Seed("", ""), append(speculative, run(200, 39)...)...)
	k.wantWorker("more by plain windows", idsBody(append(speculative, run(200, 39)...)), 1, 18)
}
