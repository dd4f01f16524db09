package extproc

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
)

// orphanAfter is how long after the loss of a connection the requests that were
// picked over it still count as running. An Envoy that has died reports no ends;
// one that only lost the connection has reported most of them by then.
const orphanAfter = 10 * time.Second

// connection is one connection of an Envoy's. Streams know theirs, so that the
// requests of an Envoy that has died are not awaited for ever.
type connection struct {
	gateways *gateways
	picked   atomic.Bool // whether a request was ever picked over it
}

// gateways knows which connections were lost lately. Safe for concurrent use.
type gateways struct {
	mu struct {
		sync.Mutex
		lost map[*connection]time.Time // until their requests were given up
	}
}

func newGateways() *gateways {
	g := &gateways{}
	g.mu.lost = make(map[*connection]time.Time)
	return g
}

func (g *gateways) lose(c *connection, now time.Time) {
	if !c.picked.Load() {
		return // whoever only connects leaves nothing behind
	}
	g.mu.Lock()
	g.mu.lost[c] = now
	g.mu.Unlock()
}

// orphaned returns the connections that were lost before cutoff, each once.
func (g *gateways) orphaned(cutoff time.Time) map[*connection]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	var orphaned map[*connection]bool
	for c, at := range g.mu.lost {
		if at.Before(cutoff) {
			if orphaned == nil {
				orphaned = make(map[*connection]bool)
			}
			orphaned[c] = true
			delete(g.mu.lost, c)
		}
	}
	return orphaned
}

// Listener returns ln for the grpc.Server that this Server is registered with.
// Over another listener requests are served just as well, but those of an Envoy
// that dies stay until Config.MaxRequestTime.
func (s *Server) Listener(ln net.Listener) net.Listener {
	return gatewayListener{ln, s.gateways}
}

type gatewayListener struct {
	net.Listener
	gateways *gateways
}

// Accept returns a connection whose remote address names it: that is what a
// stream's handler can learn about its connection, with TLS or without.
func (l gatewayListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gatewayConn{Conn: conn, id: &connection{gateways: l.gateways}}, nil
}

type gatewayConn struct {
	net.Conn
	id   *connection
	once sync.Once
}

func (c *gatewayConn) Close() error {
	c.once.Do(func() { c.id.gateways.lose(c.id, time.Now()) })
	return c.Conn.Close()
}

func (c *gatewayConn) RemoteAddr() net.Addr { return gatewayAddr{c.Conn.RemoteAddr(), c.id} }

type gatewayAddr struct {
	net.Addr
	id *connection
}

// pickedOver returns the connection of a stream over which a pick is made now;
// nil if it is not known.
func pickedOver(ctx context.Context) *connection {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	addr, ok := p.Addr.(gatewayAddr)
	if !ok {
		return nil
	}
	addr.id.picked.Store(true)
	return addr.id
}
