package zmqsock

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/go-zeromq/zmq4"
)

// Router is a bound ROUTER socket that serves DEALER and REQ peers. Identities
// do not show: an answer goes where its request came from. All methods may be
// called concurrently.
type Router struct {
	door
	cfg   RouterConfig
	ctx   context.Context // ends with the router
	end   context.CancelFunc
	ended func() bool // stops watching the context

	mu struct {
		sync.Mutex
		closed bool
		peers  map[*client]netip.Addr
	}

	requests, replies, replyBytes atomic.Uint64
}

// RouterStats are counts since ListenRouter, and how many peers there are.
type RouterStats struct {
	Peers      int    // connections now
	Handshakes int    // connections not that far yet
	Accepted   uint64 // TCP connections
	Requests   uint64 // given to Serve
	Replies    uint64 // messages written
	ReplyBytes uint64 // of their frames
	// Ended counts the connections that ended, by reason.
	Ended map[Reason]uint64
}

// ListenRouter binds the endpoint and starts to serve. When ctx ends, the
// router closes, as by Close. The caller calls Close in any case.
func ListenRouter(ctx context.Context, cfg RouterConfig) (*Router, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Router{cfg: cfg}
	if err := r.open(ctx, cfg.Endpoint, cfg.MaxHandshakes, cfg.Logger); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	r.ctx, r.end = context.WithCancel(context.WithoutCancel(ctx))
	r.mu.peers = make(map[*client]netip.Addr)
	r.ended = context.AfterFunc(ctx, r.stop)
	r.all.Go(func() { r.accept(r.converse) })
	return r, nil
}

// Endpoint returns where it is bound, with the port really used, as
// "tcp://HOST:PORT".
func (r *Router) Endpoint() string { return "tcp://" + r.listener.Addr().String() }

// Stats returns a snapshot; counts that belong together may be one apart.
func (r *Router) Stats() RouterStats {
	r.pending.mu.Lock()
	handshakes := len(r.pending.mu.list)
	r.pending.mu.Unlock()
	r.mu.Lock()
	peers := len(r.mu.peers)
	r.mu.Unlock()
	return RouterStats{
		Peers: peers, Handshakes: handshakes, Accepted: r.accepted.Load(), Requests: r.requests.Load(),
		Replies: r.replies.Load(), ReplyBytes: r.replyBytes.Load(), Ended: r.reasons.snapshot(),
	}
}

// Close ends every connection and returns when nothing of the router is left
// running. Twice is harmless.
func (r *Router) Close() error {
	r.ended()
	r.stop()
	r.all.Wait()
	return nil
}

// stop starts the end of everything; it does not wait.
func (r *Router) stop() {
	r.mu.Lock()
	if r.mu.closed {
		r.mu.Unlock()
		return
	}
	r.mu.closed = true
	close(r.closing)
	var peers []*client
	for c := range r.mu.peers { // all there will be: admit looks at closed
		peers = append(peers, c)
	}
	r.mu.Unlock()

	r.end()
	r.listener.Close()
	for _, e := range r.pending.close() {
		e.conn.Close()
	}
	for _, c := range peers {
		c.cut(endf(Stopped, "router closed"))
	}
}

// converse returns why the connection ended, an *ending.
func (r *Router) converse(conn net.Conn) error {
	c := newClient(r, conn)
	defer c.end()
	g := &guard{stall: r.cfg.StallTimeout, idle: r.cfg.IdleTimeout}
	g.frames.limits = limits{frames: r.cfg.MaxFrames, bytes: r.cfg.MaxRequest}
	g.reply = c.write
	w, err := handshake(conn, zmq4.Router, r.cfg.HandshakeTimeout, g)
	if late := r.entered(conn); late != nil {
		return late
	}
	if err != nil {
		return err
	}
	if err := r.admit(c, remoteAddr(conn)); err != nil {
		return err
	}
	defer r.dismiss(c)
	r.logger.Debug("peer connected", "remote", conn.RemoteAddr().String())

	served := make(chan struct{})
	go func() {
		defer close(served)
		c.cut(c.serve())
	}()
	c.cut(c.read(w))
	<-served
	return c.why
}

// admit makes c one of the peers, unless there are too many or it is too late.
func (r *Router) admit(c *client, addr netip.Addr) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	same := 0
	for _, a := range r.mu.peers {
		if a == addr {
			same++
		}
	}
	switch {
	case r.mu.closed:
		return endf(Stopped, "router closed")
	case len(r.mu.peers) >= r.cfg.MaxPeers:
		return endf(Crowded, "%d peers", len(r.mu.peers))
	case same >= r.cfg.MaxPeersPerAddress:
		return endf(Crowded, "%d peers of %s", same, addr)
	}
	r.mu.peers[c] = addr
	return nil
}

func (r *Router) dismiss(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.peers, c)
}
