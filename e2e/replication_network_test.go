package e2e

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// wire is a TCP proxy that can swallow all bytes without an end of any
// connection, as a network does that drops packets.
type wire struct {
	t      *testing.T
	listen net.Listener
	to     string

	mu   sync.Mutex
	cut  bool
	heal chan struct{} // closed while the wire is whole
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, listen: l, to: to, heal: make(chan struct{})}
	close(w.heal)
	go w.accept()
	t.Cleanup(func() { l.Close() })
	return w
}

func (w *wire) accept() {
	for {
		near, err := w.listen.Accept()
		if err != nil {
			return
		}
		go func() {
			defer near.Close()
			w.wait()
			far, err := net.Dial("tcp", w.to)
			if err != nil {
				return
			}
			defer far.Close()
			go w.carry(far, near)
			w.carry(near, far)
		}()
	}
}

// carry copies until one side ends; while the wire is cut nothing passes, not
// even the end.
func (w *wire) carry(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		w.wait()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err == io.EOF {
				to.Close()
			}
			return
		}
	}
}

func (w *wire) wait() {
	w.mu.Lock()
	heal := w.heal
	w.mu.Unlock()
	<-heal
}

func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cut == w.cut {
		return
	}
	if w.cut = cut; cut {
		w.heal = make(chan struct{})
	} else {
		close(w.heal)
	}
}

// TestReplicationNetworkLost is B63, and B53 on real sockets: packets between two
// replicas are lost without a reset, and both bind meanwhile, one session even
// at both.
func TestReplicationNetworkLost(t *testing.T) {
	t.Parallel() // mostly waiting
	lost := 7 * time.Second
	if long() {
		lost = 2 * time.Minute
	}
	m := prepareMesh(t, meshOptions{replicas: 2})
	var wires []*wire
	for _, r := range m.replicas {
		w := newWire(t, strings.TrimPrefix(r.mesh, "tcp://"))
		r.via = "tcp://" + w.listen.Addr().String()
		wires = append(wires, w)
	}
	m.start(0)
	m.start(1)
	a, b := m.await(0), m.await(1)
	went := a.bind(t, names("before", 100))
	m.equalTables(10*time.Second, a, b)
	for _, w := range wires {
		w.set(true)
	}
	began := time.Now()
	for session, address := range a.bind(t, names("at a", 100)) {
		went[session] = address
	}
	for session, address := range b.bind(t, names("at b", 100)) {
		went[session] = address
	}
	a.bind(t, names("at both", 50))
	b.bind(t, names("at both", 50))
	eventually(t, 15*time.Second, "both notice", func() bool {
		return !a.peer(t, b.via).Connected && !b.peer(t, a.via).Connected && a.metric(t, "mooring_peer_connected") == 0
	})
	t.Logf("the loss was noticed after %v", time.Since(began).Round(time.Millisecond))
	time.Sleep(lost - time.Since(began)) // the time is what is tested
	for _, w := range wires {
		w.set(false)
	}
	began = time.Now()
	rows := m.equalTables(15*time.Second, a, b)
	t.Logf("equal %v after the network was whole", time.Since(began).Round(time.Millisecond))
	if len(rows) != 350 {
		t.Errorf("%d bindings, want 350", len(rows))
	}
	for _, r := range m.replicas {
		if moved := r.moved(t, went); moved > 0 {
			t.Errorf("replica %d: %d of %d sessions moved", r.index, moved, len(went))
		}
	}
	eventually(t, 15*time.Second, "both say so", func() bool {
		return a.peer(t, b.via).ConvergedSince != nil && b.peer(t, a.via).ConvergedSince != nil
	})
}

// TestReplicationFiveReplicas is B70: five replicas bind for a while, then all
// are equal, and a metric shows it.
func TestReplicationFiveReplicas(t *testing.T) {
	rate, lasts := 100, 5*time.Second
	if long() {
		rate, lasts = 400, time.Minute // 2,000 a second
	}
	m := newMesh(t, meshOptions{replicas: 5, plain: true, yaml: "session: {max_sessions: 200000}\nrequest: {end: stream}"})
	var flows []*flow
	for i, r := range m.replicas {
		flows = append(flows, r.flow(fmt.Sprint("of", i), rate))
	}
	time.Sleep(lasts) // the load
	all := 0
	for _, f := range flows {
		all += len(f.stop())
		if f.failed.Load() > 0 {
			t.Errorf("%d picks failed: %v", f.failed.Load(), *f.why.Load())
		}
	}
	began := time.Now()
	eventually(t, 20*time.Second, "no metric says that anything differs", func() bool {
		for _, r := range m.replicas {
			if r.metric(t, "mooring_peer_differing") > 0 || r.metric(t, "mooring_peer_connected") != 4 {
				return false
			}
		}
		return true
	})
	took := time.Since(began)
	rows := m.equalTables(10*time.Second, m.replicas...) // the reading alone takes a while
	t.Logf("%d bindings, %.0f/s; equal %v after the end", all, float64(all)/lasts.Seconds(), took.Round(time.Millisecond))
	if len(rows) != all {
		t.Errorf("%d bindings, want %d", len(rows), all)
	}
}
