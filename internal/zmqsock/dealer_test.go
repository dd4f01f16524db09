package zmqsock_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"mooring/internal/zmqsock"
)

func dialDealer(t *testing.T, cfg zmqsock.DealerConfig) *zmqsock.Dealer {
	t.Helper()
	d, err := zmqsock.DialDealer(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func request(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Two requests in a row get their answers in order, big ones too.
func TestDealerAsksRouter(t *testing.T) {
	r := listenRouter(t, zmqsock.RouterConfig{Serve: count})
	d := dialDealer(t, zmqsock.DealerConfig{Endpoint: r.Endpoint(), IdleTimeout: patience})
	for _, n := range []uint64{3, 0, 2} {
		frames := [][]byte{nil, request(n)}
		if n == 2 {
			frames = append(frames, []byte("big"))
		}
		if err := d.Send(frames...); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			got, err := d.Receive()
			if err != nil || len(got) != 3 || (n == 3 && got[1][0] != byte(i)) || (n == 2 && len(got[1]) != 1<<20) {
				t.Fatalf("answer %d: %d frames, %v", i, len(got), err)
			}
		}
		if got, err := d.Receive(); err != nil || fmt.Sprintf("%q", got) != `["" "end"]` {
			t.Fatalf("end: %q, %v", got, err)
		}
	}
	r.Close()
	if _, err := d.Receive(); zmqsock.ReasonOf(err) != zmqsock.PeerClosed {
		t.Errorf("after the router closed: %v", err)
	}
	d.Close()
	d.Close()
	if err := d.Send(nil, request(1)); err == nil {
		t.Error("sent on a closed connection")
	}
}

// Whoever closed the connection is told that nobody else did.
func TestDealerClosed(t *testing.T) {
	r := listenRouter(t, zmqsock.RouterConfig{Serve: count})
	d := dialDealer(t, zmqsock.DealerConfig{Endpoint: r.Endpoint()})
	d.Close()
	if _, err := d.Receive(); zmqsock.ReasonOf(err) != zmqsock.Stopped {
		t.Errorf("receive: %v", err)
	}
	if err := d.Send(nil, request(1)); zmqsock.ReasonOf(err) != zmqsock.Stopped {
		t.Errorf("send: %v", err)
	}
}

// A context that ends frees whoever waits.
func TestDealerContext(t *testing.T) {
	r := listenRouter(t, zmqsock.RouterConfig{Serve: count})
	ctx, cancel := context.WithCancel(context.Background())
	d, err := zmqsock.DialDealer(ctx, zmqsock.DealerConfig{Endpoint: r.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	failed := make(chan error, 1)
	go func() {
		_, err := d.Receive()
		failed <- err
	}()
	cancel()
	if err := receive(t, failed, "error of Receive"); zmqsock.ReasonOf(err) != zmqsock.Stopped {
		t.Errorf("receive: %v", err)
	}
	if _, err := zmqsock.DialDealer(ctx, zmqsock.DealerConfig{Endpoint: r.Endpoint()}); err == nil {
		t.Error("dialled although the context is over")
	}
}

func TestDealerRefuses(t *testing.T) {
	if _, err := zmqsock.DialDealer(t.Context(), zmqsock.DealerConfig{Endpoint: "ipc://x"}); err == nil {
		t.Error("not tcp")
	}
	if _, err := zmqsock.DialDealer(t.Context(), zmqsock.DealerConfig{Endpoint: "tcp://127.0.0.1:1"}); zmqsock.ReasonOf(err) != zmqsock.Unreachable {
		t.Errorf("nobody there: %v", err)
	}
	r := listenRouter(t, zmqsock.RouterConfig{Serve: count})
	d := dialDealer(t, zmqsock.DealerConfig{Endpoint: r.Endpoint(), MaxMessage: 10})
	if err := d.Send(nil, make([]byte, 11)); zmqsock.ReasonOf(err) != zmqsock.TooLarge {
		t.Errorf("too large: %v", err)
	}
	if err := d.Send(); err == nil {
		t.Error("sent nothing")
	}
}

// TestDealerHostile runs testdata/dealer.txt: what a router sends, and how the
// dealer ends: in the dial, or after how many messages.
func TestDealerHostile(t *testing.T) {
	const short = 200 * time.Millisecond
	datadriven.RunTest(t, "testdata/dealer.txt", func(t *testing.T, d *datadriven.TestData) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		over := make(chan struct{})
		defer close(over)
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			play(t, c, d.Input, nil)
			<-over
		}()
		dealer, err := zmqsock.DialDealer(t.Context(), zmqsock.DealerConfig{
			Endpoint: "tcp://" + l.Addr().String(), HandshakeTimeout: short, IdleTimeout: short, StallTimeout: short,
			MaxMessage: 1 << 16, MaxFrames: 4,
		})
		if err != nil {
			return "dial: " + zmqsock.ReasonOf(err).String() + "\n"
		}
		defer dealer.Close()
		for out := ""; ; {
			frames, err := dealer.Receive()
			if err != nil {
				return out + zmqsock.ReasonOf(err).String() + "\n"
			}
			out += fmt.Sprintf("%q\n", frames)
		}
	})
}
