package zmqsock_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mooring/internal/zmqsock"
)

// A libzmq process, testdata/peer.py.
type libzmq struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

func startPeer(t *testing.T, kind, endpoint string, heartbeat time.Duration) *libzmq {
	t.Helper()
	cmd := exec.Command(python(t), "testdata/peer.py", kind, endpoint, strconv.Itoa(int(heartbeat.Milliseconds())))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatalf("python with pyzmq: %v", err)
	}
	l := &libzmq{cmd, in, make(chan string, 1<<16)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			l.lines <- sc.Text()
		}
		close(l.lines)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-read
		cmd.Wait()
	})
	return l
}

func (l *libzmq) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := l.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// endpoint waits for a libzmq publisher to be bound.
func (l *libzmq) endpoint(t *testing.T) string {
	t.Helper()
	line := until(t, l.lines, "bound", func(s string) bool { return strings.HasPrefix(s, "bound ") })
	return strings.TrimPrefix(line, "bound ")
}

// connected waits until the peer says so. A thread of its own tells it: that may
// be later than the first message.
func connected(t *testing.T, l *libzmq) {
	t.Helper()
	until(t, l.lines, "connected", func(s string) bool { return s == "connected" })
}

// joinPeer publishes text until the libzmq subscriber prints it.
func joinPeer(t *testing.T, p *zmqsock.Publisher, l *libzmq, text string) {
	t.Helper()
	want := fmt.Sprintf("msg %x", text)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		select {
		case s, ok := <-l.lines:
			if !ok {
				t.Fatal("peer ended")
			}
			if s == want {
				return
			}
		case <-tick.C:
			p.Publish([][]byte{[]byte(text)})
		case <-late:
			t.Fatalf("libzmq never got %q", text)
		}
	}
}

func big(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// We publish to a libzmq SUB with heartbeats: frames intact, PING answered
// through a quiet second, nothing lost at 5,000 messages, stop, continue, kill,
// and our own restart.
func TestPublishToLibzmq(t *testing.T) {
	const heartbeat = 300 * time.Millisecond
	reasons, logger := newEnds()
	p := listen(t, zmqsock.PublisherConfig{Logger: logger, MaxMessage: 64 << 20, QueueMessages: 1 << 14, QueueBytes: 64 << 20})
	ours := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint(), QueueMessages: 1 << 14, MaxMessage: 64 << 20, QueueBytes: 64 << 20})
	peer := startPeer(t, "sub", p.Endpoint(), heartbeat)
	connected(t, peer)
	join(t, p, ours, "ours")
	joinPeer(t, p, peer, "hello")

	huge := big(32 << 20)
	for _, frames := range [][][]byte{
		{[]byte("t"), {}, []byte("a"), {}},
		{{}},
		{[]byte("t"), big(255), big(256), big(70_000)},
		{[]byte("t"), huge},
	} {
		p.Publish(frames)
		want := "msg"
		for _, f := range frames {
			want += " " + shown(f)
		}
		until(t, peer.lines, want, func(s string) bool { return s == want })
	}

	select { // quiet: only PING and PONG pass
	case s := <-peer.lines:
		t.Fatalf("in a quiet second libzmq said %q", s)
	case <-time.After(5 * heartbeat):
	}

	for i := range 5000 {
		p.Publish([][]byte{[]byte("n"), []byte(strconv.Itoa(i))})
	}
	for i := range 5000 {
		want := fmt.Sprintf("msg 6e %x", strconv.Itoa(i))
		if got := receive(t, peer.lines, want); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}

	// Stopped: the other subscriber goes on; continued: it is back.
	peer.signal(t, syscall.SIGSTOP)
	for i := range 2000 {
		p.Publish([][]byte{fmt.Append(nil, "s", i), big(1000)})
	}
	until(t, ours.Messages(), "s1999", func(m zmqsock.Message) bool { return string(m.Frames[0]) == "s1999" })
	peer.signal(t, syscall.SIGCONT)
	joinPeer(t, p, peer, "continued")

	peer.signal(t, syscall.SIGKILL)
	until(t, reasons, "end of the killed", func(r string) bool { return r == "peer_closed" })
	join(t, p, ours, "after the kill")

	// A new process; then we restart, and it comes back by itself.
	peer = startPeer(t, "sub", p.Endpoint(), heartbeat)
	joinPeer(t, p, peer, "new process")
	p.Close()
	until(t, peer.lines, "loss", func(s string) bool { return s == "lost" })
	again := listen(t, zmqsock.PublisherConfig{Endpoint: p.Endpoint()})
	joinPeer(t, again, peer, "restarted")
	join(t, again, ours, "restarted for ours")
}

// We subscribe to a libzmq PUB with heartbeats, which stops, continues, is
// killed and comes back at its address.
func TestSubscribeToLibzmq(t *testing.T) {
	const heartbeat = 300 * time.Millisecond
	peer := startPeer(t, "pub", "tcp://127.0.0.1:*", heartbeat)
	endpoint := peer.endpoint(t)
	s := subscribe(t, zmqsock.SubscriberConfig{
		Endpoint: endpoint, MaxMessage: 64 << 20, QueueBytes: 128 << 20, QueueMessages: 1 << 14,
		IdleTimeout: 500 * time.Millisecond, HandshakeTimeout: 500 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
	})
	beacon := func(m zmqsock.Message) bool { return string(m.Frames[0]) == "beacon" }
	until(t, s.Messages(), "beacon", beacon)

	fmt.Fprintln(peer.in, "send 74 - 61 -")
	m := until(t, s.Messages(), "frames", func(m zmqsock.Message) bool { return string(m.Frames[0]) == "t" })
	if got := fmt.Sprintf("%q", m.Frames); got != `["t" "" "a" ""]` {
		t.Errorf("frames %s", got)
	}
	fmt.Fprintln(peer.in, "big", 32<<20)
	m = until(t, s.Messages(), "big", func(m zmqsock.Message) bool { return string(m.Frames[0]) == "big" })
	if len(m.Frames) != 2 || sha256.Sum256(m.Frames[1]) != sha256.Sum256(big(32<<20)) {
		t.Error("big message is damaged")
	}
	fmt.Fprintln(peer.in, "flood", 900) // below libzmq's own high-water mark
	next := 0
	until(t, s.Messages(), "flood", func(m zmqsock.Message) bool {
		if string(m.Frames[0]) == "flood" {
			if string(m.Frames[1]) != strconv.Itoa(next) {
				t.Fatalf("message %s, want %d", m.Frames[1], next)
			}
			next++
		}
		return next == 900
	})

	peer.signal(t, syscall.SIGSTOP)
	until(t, s.events, "loss of a stopped publisher", func(e zmqsock.Event) bool { return e.Reason == zmqsock.Idle })
	peer.signal(t, syscall.SIGCONT)
	e := until(t, s.events, "return", func(e zmqsock.Event) bool { return e.Connected })
	until(t, s.Messages(), "beacon of the new connection", func(m zmqsock.Message) bool { return m.Connection == e.Connection })

	peer.signal(t, syscall.SIGKILL)
	until(t, s.events, "loss of a killed publisher", func(e zmqsock.Event) bool { return e.Reason == zmqsock.PeerClosed })
	peer = startPeer(t, "pub", endpoint, heartbeat)
	peer.endpoint(t)
	e = until(t, s.events, "return", func(e zmqsock.Event) bool { return e.Connected })
	until(t, s.Messages(), "beacon of the restarted", func(m zmqsock.Message) bool { return m.Connection == e.Connection })
}

// A libzmq publisher that is silent, as vLLM when idle, keeps its connection:
// its PINGs are answered. It also sees us as alive.
func TestSilentLibzmqPublisher(t *testing.T) {
	const heartbeat = 200 * time.Millisecond
	peer := startPeer(t, "pub", "tcp://127.0.0.1:*", heartbeat)
	s := subscribe(t, zmqsock.SubscriberConfig{Endpoint: peer.endpoint(t), StallTimeout: 100 * time.Millisecond})
	receive(t, s.Messages(), "beacon")
	fmt.Fprintln(peer.in, "quiet")
	quiet := time.After(8 * heartbeat)
	for {
		select {
		case line := <-peer.lines:
			if line == "lost" {
				t.Fatal("libzmq gave the connection up")
			}
			continue
		case <-s.Messages():
			continue
		case <-quiet:
		}
		break
	}
	fmt.Fprintln(peer.in, "send 61")
	until(t, s.Messages(), "message after the silence", func(m zmqsock.Message) bool { return string(m.Frames[0]) == "a" })
	if st := s.Stats(); st.Connections != 1 {
		t.Errorf("%+v", st)
	}
}

// libzmq may put a PING between the frames of one message.
func TestPingWithinMessage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := subscribe(t, zmqsock.SubscriberConfig{Endpoint: "tcp://" + l.Addr().String()})
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	play(t, c, "greeting\nready PUB\nhex 0101 61 0407 0450494e47 0064 0001 62", nil)
	if m := receive(t, s.Messages(), "message"); fmt.Sprintf("%q", m.Frames) != `["a" "b"]` {
		t.Errorf("%q", m.Frames)
	}
}

// Run says why it ends, and Messages is closed with it.
func TestRunEnds(t *testing.T) {
	s, err := zmqsock.NewSubscriber(zmqsock.SubscriberConfig{Endpoint: "tcp://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Run(ctx); err != context.Canceled {
		t.Errorf("run: %v", err)
	}
	if _, ok := <-s.Messages(); ok {
		t.Error("messages still open")
	}
}

func shown(f []byte) string {
	switch {
	case len(f) == 0:
		return "-"
	case len(f) <= 64:
		return fmt.Sprintf("%x", f)
	}
	return fmt.Sprintf("%d:%x", len(f), sha256.Sum256(f))
}
