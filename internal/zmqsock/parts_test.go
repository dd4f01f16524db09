package zmqsock

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestChecker(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers []uint64 // flags, size, ...
		want    string
	}{
		{"one frame", []uint64{0, 100}, ""},
		{"up to the limit", []uint64{1, 60, 0, 40}, ""},
		{"the sum counts", []uint64{1, 60, 0, 41}, "too_large"},
		{"a new message starts at zero", []uint64{0, 100, 0, 100}, ""},
		{"three frames", []uint64{1, 0, 1, 0, 0, 0}, ""},
		{"four frames", []uint64{1, 0, 1, 0, 1, 0, 0, 0}, "too_large"},
		{"a size that would overflow", []uint64{1, 1, 2, ^uint64(0)}, "too_large"},
		{"a command between frames", []uint64{1, 60, 4, 200, 0, 40}, ""},
		{"a long command", []uint64{6, 256}, "too_large"},
		{"a command with more", []uint64{5, 5}, "violation"},
		{"reserved bits", []uint64{8, 5}, "violation"},
	} {
		k := checker{limits: limits{frames: 3, bytes: 100}}
		got := ""
		for i := 0; i < len(c.headers) && got == ""; i += 2 {
			if err := k.header(byte(c.headers[i]), c.headers[i+1]); err != nil {
				got = reasonOf(err, Internal).String()
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestQueue(t *testing.T) {
	q := newQueue[string](3, 10)
	push := func(s string, want bool) {
		t.Helper()
		if q.push(s, len(s)) != want {
			t.Errorf("push %q: want %v", s, want)
		}
	}
	push("a message larger than the queue", true) // into the empty queue
	push("b", false)
	taken, ended := q.take(nil)
	if len(taken) != 1 || ended {
		t.Fatal(taken, ended)
	}
	push("b", false) // what is taken counts until it is done
	q.done(1, len(taken[0]))
	push("12345", true)
	push("67890", true)
	push("1", false)
	push("", true)
	push("", false)
	q.finish()
	if taken, ended = q.take(taken); fmt.Sprint(taken) != "[12345 67890 ]" || !ended {
		t.Errorf("%q %v", taken, ended)
	}
	q.done(3, 10)
	push("late", false)
}

// Pushes that are refused in a row leave one mark, where they would have been.
func TestQueueMarks(t *testing.T) {
	q := newQueue[string](2, 10)
	push := func(item string) {
		if !q.push(item, 1) {
			q.mark(func(mark *string) { *mark += item })
		}
	}
	for _, item := range []string{"a", "b", "C", "D"} {
		push(item)
	}
	taken, _ := q.take(nil)
	push("E") // what is taken is not done
	q.done(3, 2)
	push("f")
	push("G")
	more, _ := q.take(nil)
	if got := fmt.Sprint(taken, more); got != "[a b CD] [E f G]" {
		t.Error(got)
	}
	if q.mu.count != 3 || q.mu.bytes != 1 {
		t.Errorf("%d items of %d bytes, want 3 of 1", q.mu.count, q.mu.bytes)
	}
}

// Who holds most gives way; an address with few connections is left alone.
func TestPendingGivesWay(t *testing.T) {
	p := pending{limit: 3}
	a1, a2, a3, b := from(t, "192.0.2.1:1"), from(t, "192.0.2.1:2"), from(t, "192.0.2.1:3"), from(t, "192.0.2.2:1")
	for _, c := range []net.Conn{b, a1, a2} {
		if out, ok := p.add(c); out != nil || !ok {
			t.Fatal(out, ok)
		}
	}
	if out, _ := p.add(a3); out != a1 {
		t.Errorf("pushed out %v, want the oldest of the address with most", out)
	}
	if p.remove(a1) || !p.remove(b) || !p.remove(a2) {
		t.Error("remove")
	}
	if list := p.close(); len(list) != 1 || list[0].conn != a3 {
		t.Errorf("left: %v", list)
	}
	if _, ok := p.add(b); ok {
		t.Error("added after close")
	}
}

type fakeConn struct {
	net.Conn
	remote net.Addr
}

func (c *fakeConn) RemoteAddr() net.Addr { return c.remote }

func from(t *testing.T, addr string) net.Conn {
	t.Helper()
	return &fakeConn{remote: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}
}

func TestBackoff(t *testing.T) {
	b := backoff{shortest: 50 * time.Millisecond, longest: time.Second}
	for _, most := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
		most *= time.Millisecond
		if d := b.next(); d > most || d < most/2-1 {
			t.Errorf("pause %v, want between %v and %v", d, most/2, most)
		}
	}
	b.last = 0
	if d := b.next(); d > 50*time.Millisecond {
		t.Errorf("pause %v after a success", d)
	}
}

func TestAllowance(t *testing.T) {
	var a allowance
	now := time.Unix(1, 0)
	for i := range allowanceBurst {
		if err := a.allow(now); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if err := a.allow(now); reasonOf(err, Internal) != Flood {
		t.Errorf("one too many: %v", err)
	}
	if err := a.allow(now.Add(time.Second)); err != nil {
		t.Errorf("a second later: %v", err)
	}
}

func TestEndpoints(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		bind     bool
		want     string // "" for an error
	}{
		{"tcp://10.0.0.1:9092", false, "10.0.0.1:9092"},
		{"tcp://[::1]:9092", false, "[::1]:9092"},
		{"tcp://mesh.local:9092", false, "mesh.local:9092"},
		{"tcp://*:*", true, ":0"},
		{"tcp://127.0.0.1:0", true, "127.0.0.1:0"},
		{"tcp://127.0.0.1:0", false, ""},
		{"tcp://*:9092", false, ""},
		{"tcp://:9092", false, ""},
		{"tcp://10.0.0.1", false, ""},
		{"tcp://10.0.0.1:99999", false, ""},
		{"10.0.0.1:9092", false, ""},
		{"ipc:///tmp/x", true, ""},
		{"", true, ""},
	} {
		got, err := hostPort(c.endpoint, c.bind)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v, want %q", c.endpoint, got, err, c.want)
		}
	}
}

func TestConfigRefused(t *testing.T) {
	if _, err := Listen(t.Context(), PublisherConfig{Endpoint: "tcp://127.0.0.1:0", MaxPeers: -1}); err == nil || !strings.Contains(err.Error(), "MaxPeers") {
		t.Errorf("negative MaxPeers: %v", err)
	}
	if _, err := NewSubscriber(SubscriberConfig{Endpoint: "tcp://a:1", MaxFrames: -1}); err == nil || !strings.Contains(err.Error(), "MaxFrames") {
		t.Errorf("negative MaxFrames: %v", err)
	}
	p, err := Listen(t.Context(), PublisherConfig{Endpoint: "tcp://127.0.0.1:0", MaxMessage: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, frames := range [][][]byte{nil, {make([]byte, 11)}, {make([]byte, 6), make([]byte, 5)}} {
		if err := p.Publish(frames); !errors.Is(err, ErrMessage) {
			t.Errorf("publish of %d frames: %v", len(frames), err)
		}
	}
}

// Every reason has a name of its own: they are a metric's labels.
func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range reasons {
		if s := r.String(); seen[s] || strings.HasPrefix(s, "reason_") {
			t.Errorf("reason %d is %q", r, s)
		} else {
			seen[s] = true
		}
	}
	if Reason(reasons).String() != "reason_12" {
		t.Errorf("%q", Reason(reasons))
	}
}
