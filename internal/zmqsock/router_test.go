package zmqsock_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"mooring/internal/zmqsock"
)

func listenRouter(t *testing.T, cfg zmqsock.RouterConfig) *zmqsock.Router {
	t.Helper()
	cfg.Endpoint = "tcp://127.0.0.1:0"
	r, err := zmqsock.ListenRouter(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// count answers a request of an empty frame and a number with as many
// messages, and with big ones if there is a third frame.
func count(_ context.Context, request [][]byte, reply func(frames ...[]byte) error) error {
	if len(request) < 2 || len(request[0]) != 0 || len(request[1]) != 8 {
		return errors.New("no such request")
	}
	for i := range binary.BigEndian.Uint64(request[1]) {
		body := []byte{byte(i)}
		if len(request) == 3 {
			body = big(1 << 20)
		}
		if err := reply(nil, body, nil); err != nil {
			return err
		}
	}
	return reply(nil, []byte("end"))
}

// Two libzmq DEALERs with heartbeats get whole answers in order, each its own,
// several requests at once among them, and stay through a quiet second.
func TestRouterServesLibzmq(t *testing.T) {
	const heartbeat = 300 * time.Millisecond
	r := listenRouter(t, zmqsock.RouterConfig{Serve: count})
	a, b := startPeer(t, "dealer", r.Endpoint(), heartbeat), startPeer(t, "dealer", r.Endpoint(), heartbeat)
	connected(t, a)
	fmt.Fprintf(a.in, "send - %016x\nsend - %016x\n", 3, 1)
	fmt.Fprintf(b.in, "send - %016x 61\n", 2)
	messages := func(l *libzmq, want ...string) {
		t.Helper()
		for _, w := range want {
			until(t, l.lines, w, func(s string) bool {
				if strings.HasPrefix(s, "msg") && s != w {
					t.Fatalf("got %q, want %q", s, w)
				}
				return s == w
			})
		}
	}
	messages(a, "msg - 00 -", "msg - 01 -", "msg - 02 -", "msg - 656e64", "msg - 00 -", "msg - 656e64")
	messages(b, "msg - "+shown(big(1<<20))+" -", "msg - "+shown(big(1<<20))+" -", "msg - 656e64")
	select { // quiet: only PING and PONG pass
	case s := <-a.lines:
		t.Fatalf("in a quiet second libzmq said %q", s)
	case <-time.After(5 * heartbeat):
	}
	fmt.Fprintf(a.in, "send - %016x\n", 0)
	messages(a, "msg - 656e64")
	for late := time.Now().Add(patience); r.Stats().Replies < 10 && time.Now().Before(late); { // counted once it is written
		time.Sleep(time.Millisecond)
	}
	if st := r.Stats(); st.Peers != 2 || st.Accepted != 2 || st.Requests != 4 || st.Replies != 10 {
		t.Errorf("%+v", st)
	}
	r.Close()
	until(t, a.lines, "loss", func(s string) bool { return s == "lost" })
	if st := r.Stats(); st.Peers != 0 || st.Ended[zmqsock.Stopped] != 2 {
		t.Errorf("after close: %+v", st)
	}
}

// Whatever a peer sends, or does not read, it can only end its own connection.
func TestRouterHostile(t *testing.T) {
	const short = 300 * time.Millisecond
	request := func(n int) string { return fmt.Sprintf("hex 0100 0008 %016x\n", n) }
	hello := "greeting\nready DEALER\n"
	for _, c := range []struct{ name, script, want string }{
		{"silence", "silent", "handshake_timeout"},
		{"another protocol", `text "GET / HTTP/1.1\r\nHost: a\r\n\r\n"`, "handshake_invalid"},
		{"a subscriber", "greeting\nready SUB", "handshake_invalid"},
		{"goes away", hello + "close", "peer_closed"},
		{"nothing to say", hello, "idle"},
		{"half a request", hello + "hex 0100 0008 0000", "stalled"},
		{"no request", hello + "hex 0003 616263", "violation"},
		{"a large request", hello + "frame 02 1025", "too_large"},
		{"a claim to crash on", hello + "frame 02 18446744073709551615", "too_large"},
		{"many frames", hello + "repeat 9 0100", "too_large"},
		{"an unknown command", hello + "hex 0404 03 414243", "violation"},
		{"an answer that takes too long", hello + request(1000), "stalled"},
		{"requests while one is served", hello + request(1000) + "repeat 9 0100 0008 0000000000000001", "flood"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			reasons, logger := newEnds()
			idle := time.Minute
			if c.want == "idle" {
				idle = short
			}
			r := listenRouter(t, zmqsock.RouterConfig{
				HandshakeTimeout: short, StallTimeout: short, RequestTimeout: 2 * short, IdleTimeout: idle, Logger: logger,
				Serve: func(ctx context.Context, request [][]byte, reply func(frames ...[]byte) error) error {
					if len(request) == 2 && binary.BigEndian.Uint64(request[1]) == 1000 {
						<-ctx.Done()
						return nil
					}
					return count(ctx, request, reply)
				},
			})
			conn, err := net.Dial("tcp", strings.TrimPrefix(r.Endpoint(), "tcp://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			play(t, conn, c.script, nil)
			if got := receive(t, reasons, "end of the peer"); got != c.want {
				t.Errorf("ended with %q, want %q", got, c.want)
			}
		})
	}
}

// A peer that does not read an answer is cut, and so is one too many.
func TestRouterBounds(t *testing.T) {
	reasons, logger := newEnds()
	r := listenRouter(t, zmqsock.RouterConfig{Serve: count, StallTimeout: 300 * time.Millisecond, MaxPeersPerAddress: 1, Logger: logger})
	dialDealer := func() net.Conn {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.Endpoint(), "tcp://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.Write(append(greeting(""), ready("DEALER")...))
		return conn
	}
	deaf := dialDealer()
	deaf.Write(unhex(t, fmt.Sprintf("0100 0108 %016x 0001 61", 1000)))
	buf := make([]byte, 1000)
	for n := 0; n < len(buf); { // into the answer: it is admitted
		m, err := deaf.Read(buf[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	dialDealer()
	if got := receive(t, reasons, "refusal"); got != "crowded" {
		t.Errorf("second peer: %s", got)
	}
	if got := receive(t, reasons, "end of the deaf"); got != "stalled" {
		t.Errorf("deaf peer: %s", got)
	}
}

func TestRouterConfigRefused(t *testing.T) {
	for want, cfg := range map[string]zmqsock.RouterConfig{
		"Serve":      {Endpoint: "tcp://127.0.0.1:0"},
		"MaxPeers":   {Endpoint: "tcp://127.0.0.1:0", Serve: count, MaxPeers: -1},
		"tcp://HOST": {Endpoint: "ipc:///tmp/x", Serve: count},
	} {
		if _, err := zmqsock.ListenRouter(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %s", err, want)
		}
	}
}
