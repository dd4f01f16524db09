package replication_test

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// relay stands before a replica's mesh port. Stopped, it reads and writes nothing
// and keeps its connections, as a process does that was stopped: what is sent to
// it fills the buffers of both kernels, and then waits at the sender.
type relay struct {
	listener net.Listener
	target   string
	gate     sync.RWMutex // held for writing while it is stopped
	all      sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// newRelay passes on connections to the endpoint until the test ends.
func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, target: strings.TrimPrefix(to, "tcp://")}
	r.all.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) endpoint() string { return "tcp://" + r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.target)
		if err != nil {
			in.Close()
			continue
		}
		if !r.keep(in, out) {
			return
		}
		r.all.Go(func() { r.pass(in, out) })
		r.all.Go(func() { r.pass(out, in) })
	}
}

// keep reports false, and closes the connections, if the relay is closed.
func (r *relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		for _, c := range conns {
			c.Close()
		}
		return false
	}
	r.conns = append(r.conns, conns...)
	return true
}

// pass copies from one to the other, and ends both when one ends.
func (r *relay) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		r.gate.RLock()
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		r.gate.RUnlock()
		if err != nil {
			return
		}
	}
}

func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	r.listener.Close()
	for _, c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.all.Wait()
}

// stopAll stops the relays until the returned function is called; twice is
// harmless.
func stopAll(t *testing.T, relays ...*relay) (resume func()) {
	for _, r := range relays {
		r.gate.Lock()
	}
	resume = sync.OnceFunc(func() {
		for _, r := range relays {
			r.gate.Unlock()
		}
	})
	t.Cleanup(resume)
	return resume
}
