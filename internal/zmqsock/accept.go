package zmqsock

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zeromq/zmq4"
)

// A door is the listening half of a bound socket: it takes connections in and
// counts how they ended.
type door struct {
	listener net.Listener
	pending  pending
	all      sync.WaitGroup // every goroutine there is
	closing  chan struct{}
	logger   *slog.Logger

	accepted atomic.Uint64
	reasons  tally
}

// open binds an endpoint.
func (d *door) open(ctx context.Context, endpoint string, maxHandshakes int, logger *slog.Logger) error {
	addr, err := hostPort(endpoint, true)
	if err != nil {
		return err
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive()}
	if d.listener, err = lc.Listen(ctx, "tcp", addr); err != nil {
		return err
	}
	d.pending.limit, d.closing, d.logger = maxHandshakes, make(chan struct{}), logger
	return nil
}

// accept takes connections until the listener is closed, and has each served
// by a goroutine of its own. It does nothing that depends on a peer. When
// descriptors run out it pauses instead of spinning.
func (d *door) accept(converse func(net.Conn) error) {
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := shortest
	for {
		c, err := d.listener.Accept()
		select {
		case <-d.closing:
			if err == nil {
				c.Close()
			}
			return
		default:
		}
		if err != nil {
			d.logger.Warn("accept", "error", err, "pause_ms", pause.Milliseconds())
			select {
			case <-d.closing:
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, longest)
			continue
		}
		pause = shortest
		d.accepted.Add(1)
		pushedOut, ok := d.pending.add(c)
		if pushedOut != nil {
			pushedOut.Close()
		}
		if !ok {
			c.Close()
			return
		}
		d.all.Go(func() { d.serve(c, converse) })
	}
}

// serve owns one connection from its handshake to its end, of which converse
// tells the reason, an *ending.
func (d *door) serve(c net.Conn, converse func(net.Conn) error) {
	defer c.Close()
	err := converse(c)
	why := reasonOf(err, Internal)
	d.reasons[why].Add(1)
	d.logger.Debug("peer gone", "remote", c.RemoteAddr().String(), "reason", why.String(), "error", err)
}

// entered says whether a connection whose handshake is over may go on.
func (d *door) entered(c net.Conn) error {
	if d.pending.remove(c) {
		return nil
	}
	select {
	case <-d.closing:
		return endf(Stopped, "socket closed")
	default:
		return endf(Crowded, "more than %d handshakes at once", d.pending.limit)
	}
}

// converse returns why the connection ended, an *ending.
func (p *Publisher) converse(c net.Conn) error {
	to := newPeer(c, &p.cfg)
	g := &guard{stall: p.cfg.StallTimeout}
	g.frames.limits = limits{frames: 1, bytes: 1 + p.cfg.MaxTopic}
	// A PONG queues like a message: one that is late or dropped costs only
	// the peer that does not read.
	g.reply = func(pong []byte) error {
		if !to.out.push(pong, len(pong)) {
			p.dropped.Add(1)
			p.droppedBytes.Add(uint64(len(pong)))
		}
		return nil
	}
	w, err := handshake(c, zmq4.Pub, p.cfg.HandshakeTimeout, g)
	if late := p.entered(c); late != nil {
		return late
	}
	if err != nil {
		return err
	}
	if err := p.admit(to); err != nil {
		return err
	}
	defer p.dismiss(to)
	p.cfg.Logger.Debug("subscriber connected", "remote", c.RemoteAddr().String())

	written := make(chan struct{})
	go func() {
		defer close(written)
		to.cut(to.write(p.cfg.StallTimeout))
	}()
	to.cut(to.read(w, p.cfg.MaxTopics))
	<-written
	return to.why
}
