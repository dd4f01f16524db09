package zmqsock

import (
	"net"
	"time"

	"github.com/go-zeromq/zmq4"
)

// accept takes connections until the listener is closed. It does nothing that
// depends on a peer. When descriptors run out it pauses instead of spinning.
func (p *Publisher) accept() {
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := shortest
	for {
		c, err := p.listener.Accept()
		select {
		case <-p.closing:
			if err == nil {
				c.Close()
			}
			return
		default:
		}
		if err != nil {
			p.cfg.Logger.Warn("accept", "error", err, "pause_ms", pause.Milliseconds())
			select {
			case <-p.closing:
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, longest)
			continue
		}
		pause = shortest
		p.accepted.Add(1)
		pushedOut, ok := p.pending.add(c)
		if pushedOut != nil {
			pushedOut.Close()
		}
		if !ok {
			c.Close()
			return
		}
		p.all.Go(func() { p.serve(c) })
	}
}

// serve owns one connection from its handshake to its end.
func (p *Publisher) serve(c net.Conn) {
	defer c.Close()
	err := p.converse(c)
	why := reasonOf(err, Internal)
	p.reasons[why].Add(1)
	p.cfg.Logger.Debug("subscriber gone", "remote", c.RemoteAddr().String(), "reason", why.String(), "error", err)
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
	if !p.pending.remove(c) {
		select {
		case <-p.closing:
			return endf(Stopped, "publisher closed")
		default:
			return endf(Crowded, "more than %d handshakes at once", p.cfg.MaxHandshakes)
		}
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
