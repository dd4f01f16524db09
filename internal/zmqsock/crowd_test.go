package zmqsock_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"mooring/internal/zmqsock"
)

// A thousand connections that say nothing, and a thousand that send garbage,
// all from the address of the honest peers: they disturb nobody. On a busy machine
// some of the garbage is pushed out before it is read, as the silent ones are.
func TestThousandStrangers(t *testing.T) {
	reasons, logger := newEnds()
	p := listen(t, zmqsock.PublisherConfig{Logger: logger, HandshakeTimeout: time.Minute})
	first := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
	join(t, p, first, "before")
	for i := range 1000 {
		silent := dial(t, p)
		defer silent.Close()
		garbage := dial(t, p)
		defer garbage.Close()
		garbage.Write(noise(256))
		if i%100 == 50 {
			began := time.Now()
			s := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
			join(t, p, s, fmt.Sprint("newcomer", i))
			join(t, p, first, fmt.Sprint("old hand", i))
			if e := <-s.events; !e.Connected || time.Since(began) > 5*time.Second {
				t.Errorf("newcomer %d needed %v, first event %+v", i, time.Since(began), e)
			}
		}
	}
	for range 2000 - 64 { // all but the latest of the silent
		until(t, reasons, "refusal", func(r string) bool { return r == "handshake_invalid" || r == "crowded" })
	}
	st := p.Stats()
	if st.Ended[zmqsock.HandshakeInvalid] < 32 || st.Ended[zmqsock.Crowded] < 1000-64 || st.Handshakes > 64 { // the latest 64 are pushed out by nobody
		t.Errorf("%d refused, %d pushed out, %d handshakes open", st.Ended[zmqsock.HandshakeInvalid], st.Ended[zmqsock.Crowded], st.Handshakes)
	}
	if first.Stats().Connections != 1 {
		t.Errorf("the first subscriber was disturbed: %+v", first.Stats())
	}
}

// The dialling side: a publisher that answers a thousand times with garbage or
// at once with the end does not disturb the subscriber of another.
func TestThousandBadAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{}, 1)
	go func() {
		for i := range 1000 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if i%2 == 0 {
				c.Write(noise(256))
			}
			c.Close()
		}
		answered <- struct{}{}
	}()
	p := listen(t, zmqsock.PublisherConfig{})
	good := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
	join(t, p, good, "before")
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would close what we forget
	descriptors := open(t)
	bad := subscribe(t, zmqsock.SubscriberConfig{Endpoint: "tcp://" + l.Addr().String(), MinBackoff: time.Microsecond, MaxBackoff: time.Microsecond})
	receive(t, answered, "a thousand answers")
	join(t, p, good, "after")
	bad.stop()
	if n := open(t); n > descriptors+5 {
		t.Errorf("descriptors %d -> %d", descriptors, n)
	}
	l.Close()
	if n := good.Stats().Connections; n != 1 {
		t.Errorf("the good subscriber made %d connections", n)
	}
	if st := bad.Stats(); st.Connections != 0 || st.Ended[zmqsock.HandshakeInvalid]+st.Ended[zmqsock.PeerClosed] < 999 { // the last may be cut short by stop
		t.Errorf("%+v", st)
	}
}

// One subscriber stops reading: the other loses nothing, memory stays flat,
// Publish stays quick, and the deaf one is cut.
func TestStalledSubscriber(t *testing.T) {
	reasons, logger := newEnds()
	p := listen(t, zmqsock.PublisherConfig{Logger: logger, StallTimeout: 2 * time.Second, QueueBytes: 1 << 20})
	healthy := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
	join(t, p, healthy, "before")
	deaf := dial(t, p)
	defer deaf.Close()
	deaf.Write(append(append(greeting(""), ready("SUB")...), 0, 1, 1))
	for queued := p.Stats().Queued; p.Stats().Queued-queued < 2; { // to both: it is in
		queued = p.Stats().Queued
		p.Publish([][]byte{[]byte("anybody?")})
	}

	before := heap()
	const messages, size = 4000, 32 << 10 // 125 MiB
	body := make([]byte, size)
	slowest := time.Duration(0)
	got := 0
	for i := range messages {
		began := time.Now()
		p.Publish([][]byte{fmt.Append(nil, "m", i), body})
		slowest = max(slowest, time.Since(began))
		m := until(t, healthy.Messages(), "message", func(m zmqsock.Message) bool { return m.Frames[0][0] == 'm' })
		if string(m.Frames[0]) != fmt.Sprint("m", i) || len(m.Frames[1]) != size {
			t.Fatalf("message %d is %s", i, m.Frames[0])
		}
		got++
	}
	grown := heap() - before
	st := p.Stats()
	t.Logf("%d messages to the healthy one, %d drops, heap +%d KiB, slowest Publish %v", got, st.Dropped, grown>>10, slowest)
	if st.Dropped == 0 && st.Ended[zmqsock.Stalled] == 0 {
		t.Error("nothing was dropped and nobody cut")
	}
	if grown > 8<<20 {
		t.Errorf("heap grew by %d bytes", grown)
	}
	if slowest > time.Second {
		t.Errorf("a Publish took %v", slowest)
	}
	until(t, reasons, "cut of the deaf one", func(r string) bool { return r == "stalled" })
	if n := p.Stats().Peers; n != 1 {
		t.Errorf("%d peers", n)
	}
}

// Who does not take messages loses the newest, counted, and nothing grows.
func TestSlowReceiver(t *testing.T) {
	p := listen(t, zmqsock.PublisherConfig{})
	s := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint(), QueueMessages: 10})
	join(t, p, s, "before")
	received := s.Stats().Received
	const n = 500
	for i := range n {
		p.Publish([][]byte{fmt.Append(nil, i)})
	}
	for s.Stats().Received < received+n {
		runtime.Gosched()
	}
	dropped := s.Stats().Dropped
	if dropped < n-10-50 || dropped > n-10+50 {
		t.Errorf("%d of %d dropped with a queue of 10", dropped, n)
	}
	join(t, p, s, "after")
}

// With MarkDrops it shows where in the stream messages were lost, and how many,
// also if none comes after them.
func TestDropsAreMarked(t *testing.T) {
	p := listen(t, zmqsock.PublisherConfig{})
	s := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint(), QueueMessages: 10, MarkDrops: true})
	join(t, p, s, "before")
	next, dropped := 0, uint64(0)
	publish := func(n int) {
		received := s.Stats().Received
		for i := range n {
			p.Publish([][]byte{fmt.Append(nil, next+i)})
		}
		for s.Stats().Received < received+uint64(n) {
			runtime.Gosched()
		}
	}
	// take takes all that is there up to the last message, or its mark, and
	// returns the number due.
	take := func(due, last int) int {
		for due <= last {
			m := receive(t, s.Messages(), "message or mark")
			if len(m.Frames) == 0 {
				due, dropped = due+int(m.Dropped), dropped+m.Dropped
				continue
			}
			if string(m.Frames[0]) == "before" {
				continue // join published more than one
			}
			if string(m.Frames[0]) != fmt.Sprint(due) {
				t.Fatalf("got %s, want %d", m.Frames[0], due)
			}
			due++
		}
		return due
	}
	for _, n := range []int{500, 5, 300} {
		publish(n)
		last := next + n - 1
		if due := take(next, last); due != last+1 {
			t.Fatalf("at %d after %d messages", due, last+1)
		}
		next += n
	}
	if n := s.Stats().Dropped; n != dropped || n < 700 {
		t.Errorf("%d dropped, the marks have %d", n, dropped)
	}
}

// Five hundred flaps of a subscriber and of a publisher leave nothing behind.
func TestFlaps(t *testing.T) {
	reasons, logger := newEnds()
	p := listen(t, zmqsock.PublisherConfig{Logger: logger})
	steady := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
	join(t, p, steady, "before")
	goroutines, descriptors := runtime.NumGoroutine(), open(t)
	for range 500 {
		s := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
		receive(t, s.events, "connection")
		p.Publish([][]byte{[]byte("x")})
		s.stop()
		receive(t, reasons, "end")
	}
	for range 500 {
		q := listen(t, zmqsock.PublisherConfig{})
		s := subscribe(t, zmqsock.SubscriberConfig{Endpoint: q.Endpoint()})
		receive(t, s.events, "connection")
		q.Publish([][]byte{[]byte("x")})
		q.Close()
		until(t, s.events, "loss", func(e zmqsock.Event) bool { return !e.Connected })
		s.stop()
	}
	join(t, p, steady, "after")
	for began := time.Now(); runtime.NumGoroutine() > goroutines || open(t) > descriptors; runtime.Gosched() {
		if time.Since(began) > 5*time.Second {
			t.Fatalf("goroutines %d -> %d, descriptors %d -> %d", goroutines, runtime.NumGoroutine(), descriptors, open(t))
		}
	}
}

// A publisher that goes is awaited at its own address and nowhere else.
func TestReconnectKeepsToItsPublisher(t *testing.T) {
	a, b := listen(t, zmqsock.PublisherConfig{}), listen(t, zmqsock.PublisherConfig{})
	toA := subscribe(t, zmqsock.SubscriberConfig{Endpoint: a.Endpoint(), MaxBackoff: 50 * time.Millisecond})
	toB := subscribe(t, zmqsock.SubscriberConfig{Endpoint: b.Endpoint()})
	join(t, a, toA, "a1")
	join(t, b, toB, "b1")
	a.Close()
	for range 5 {
		until(t, toA.events, "vain attempt", func(e zmqsock.Event) bool { return e.Reason == zmqsock.Unreachable })
	}
	if n := b.Stats().Accepted; n != 1 {
		t.Fatalf("the other publisher was dialled %d times", n)
	}
	again := listen(t, zmqsock.PublisherConfig{Endpoint: a.Endpoint()})
	join(t, again, toA, "a2")
	if e := until(t, toA.events, "connection", func(e zmqsock.Event) bool { return e.Connected && e.Connection > 1 }); e.Connection != 2 {
		t.Errorf("connection %d, want the second", e.Connection)
	}
	if n := b.Stats().Accepted; n != 1 {
		t.Errorf("the other publisher was dialled %d times", n)
	}
}

// What Linger promises: all that was queued when Close is called goes out.
func TestLinger(t *testing.T) {
	p := listen(t, zmqsock.PublisherConfig{Linger: 10 * time.Second})
	s := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
	join(t, p, s, "before")
	for range 1000 {
		p.Publish([][]byte{[]byte("queued"), make([]byte, 1000)})
	}
	p.Publish([][]byte{[]byte("goodbye")})
	began := time.Now()
	p.Close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	if err := p.Publish([][]byte{[]byte("late")}); err != zmqsock.ErrClosed {
		t.Errorf("publish after close: %v", err)
	}
	n := 0
	until(t, s.Messages(), "goodbye", func(m zmqsock.Message) bool {
		if string(m.Frames[0]) == "queued" {
			n++
		}
		return string(m.Frames[0]) == "goodbye"
	})
	if n != 1000 {
		t.Errorf("%d of 1000", n)
	}
}

// The context ends the publisher as Close does.
func TestContextEndsPublisher(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	p, err := zmqsock.Listen(ctx, zmqsock.PublisherConfig{Endpoint: "tcp://127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	s := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
	receive(t, s.events, "connection")
	cancel()
	until(t, s.events, "loss", func(e zmqsock.Event) bool { return !e.Connected })
	p.Close()
	p.Close()
}

// Peers over MaxPeersPerAddress are refused, the others keep their place.
func TestTooManyPeers(t *testing.T) {
	reasons, logger := newEnds()
	p := listen(t, zmqsock.PublisherConfig{Logger: logger, MaxPeersPerAddress: 2})
	one := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
	two := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
	join(t, p, one, "one")
	join(t, p, two, "two")
	subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
	if r := receive(t, reasons, "refusal"); r != "crowded" {
		t.Errorf("refused as %s", r)
	}
	one.stop()
	until(t, reasons, "room", func(r string) bool { return r == "peer_closed" })
	three := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint()})
	receive(t, three.events, "connection")
	join(t, p, two, "still there")
}

func dial(t testing.TB, p *zmqsock.Publisher) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.Endpoint(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func noise(n int64) []byte {
	b := make([]byte, n)
	io.ReadFull(rand.NewChaCha8([32]byte{2}), b)
	return b
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func open(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
