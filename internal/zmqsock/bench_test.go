package zmqsock_test

import (
	"context"
	"io"
	"log"
	"slices"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"

	"mooring/internal/zmqsock"
)

// One publisher, one subscriber, messages of two frames and 200 bytes. The
// publisher keeps at most a window of messages ahead, so that both sides are
// measured without a drop.
const window = 1000

func BenchmarkPubSub(b *testing.B) { bothLibraries(b, stream) }

// BenchmarkLatency paces 10,000 messages a second and reports how long each
// took.
func BenchmarkLatency(b *testing.B) { bothLibraries(b, paced) }

// bothLibraries measures our sockets and the library's own.
func bothLibraries(b *testing.B, measure func(b *testing.B, send, receive func())) {
	frames := func() [][]byte { return [][]byte{[]byte("topic"), make([]byte, 195)} }
	b.Run("lib=ours", func(b *testing.B) {
		p := listen(b, zmqsock.PublisherConfig{})
		s := subscribe(b, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
		join(b, p, s, "topic!")
		drain(s)
		measure(b, func() { p.Publish(frames()) }, func() { <-s.Messages() })
	})
	b.Run("lib=zmq4", func(b *testing.B) {
		pub, sub := stock(b)
		measure(b, func() { pub.SendMulti(zmq4.NewMsgFrom(frames()...)) }, func() { sub.Recv() })
	})
}

// drain takes what join published beyond the message it needed.
func drain(s *subscription) {
	for {
		select {
		case <-s.Messages():
		case <-time.After(50 * time.Millisecond):
			return
		}
	}
}

func stream(b *testing.B, send, receive func()) {
	room := make(chan struct{}, window)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		for range b.N {
			room <- struct{}{}
			send()
		}
	}()
	for range b.N {
		receive()
		<-room
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

func paced(b *testing.B, send, receive func()) {
	sent := make(chan time.Time, b.N)
	go func() {
		next := time.Now()
		for range b.N {
			next = next.Add(100 * time.Microsecond)
			time.Sleep(time.Until(next))
			sent <- time.Now()
			send()
		}
	}()
	took := make([]time.Duration, 0, b.N)
	for range b.N {
		receive()
		took = append(took, time.Since(<-sent))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

// stock is the library's own pair over its TCP transport.
func stock(b *testing.B) (pub, sub zmq4.Socket) {
	ctx, cancel := context.WithCancel(context.Background())
	quiet := zmq4.WithLogger(log.New(io.Discard, "", 0))
	pub, sub = zmq4.NewPub(ctx, quiet), zmq4.NewSub(ctx, quiet)
	b.Cleanup(func() { sub.Close(); pub.Close(); cancel() })
	if err := pub.Listen("tcp://127.0.0.1:0"); err != nil {
		b.Fatal(err)
	}
	sub.SetOption(zmq4.OptionSubscribe, "topic")
	if err := sub.Dial("tcp://" + pub.Addr().String()); err != nil {
		b.Fatal(err)
	}
	for topics := pub.(zmq4.Topics); len(topics.Topics()) == 0; {
		time.Sleep(time.Millisecond)
	}
	return pub, sub
}
