package zmqsock

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/go-zeromq/zmq4"
)

// DealerConfig is all a Dealer needs. Every zero field but Endpoint means its
// default.
type DealerConfig struct {
	// Endpoint to dial, "tcp://HOST:PORT".
	Endpoint string
	// MaxMessage bounds an answer, all its frames together, in bytes, and
	// MaxFrames its frames; beyond, the connection ends before anything is
	// allocated. Default 16 MiB and 8.
	MaxMessage, MaxFrames int
	// DialTimeout is what the TCP connection may take. Default 1 s.
	DialTimeout time.Duration
	// HandshakeTimeout is what greeting and READY may take. Default 2 s.
	HandshakeTimeout time.Duration
	// IdleTimeout ends a connection on which nothing was heard for so long
	// while Receive waited. Default 0: never.
	IdleTimeout time.Duration
	// StallTimeout ends a connection that stops in mid-message, or does not
	// take what is sent. Default 5 s.
	StallTimeout time.Duration
}

func (c DealerConfig) withDefaults() (DealerConfig, error) {
	err := fill("dealer", count{"MaxMessage", &c.MaxMessage, 16 << 20}, count{"MaxFrames", &c.MaxFrames, 8})
	if err != nil {
		return c, err
	}
	c.DialTimeout = orDefault(c.DialTimeout, time.Second)
	c.HandshakeTimeout = orDefault(c.HandshakeTimeout, 2*time.Second)
	c.StallTimeout = orDefault(c.StallTimeout, 5*time.Second)
	c.IdleTimeout = max(c.IdleTimeout, 0)
	return c, nil
}

// Dealer is one connection of a DEALER to one ROUTER: requests go out, and
// whatever comes back is received in order. It has no queue and no goroutine:
// what is not received waits at the peer. It does not reconnect, so that what
// an earlier request brought can never be taken for the answer to a later one.
//
// Send and Receive are for one goroutine; Close may be called from any.
type Dealer struct {
	wire  *wire
	limit int
	stop  func() bool // stops watching the context
}

// DialDealer connects and does the handshake. When ctx ends, the connection
// does, and with it whatever waits for it. The caller calls Close.
func DialDealer(ctx context.Context, cfg DealerConfig) (*Dealer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	addr, err := hostPort(cfg.Endpoint, false)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: cfg.DialTimeout, KeepAliveConfig: keepAlive()}
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, endf(Unreachable, "%w", err)
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	if c.LocalAddr().String() == c.RemoteAddr().String() {
		err = endf(Unreachable, "connected to itself")
	}
	g := &guard{idle: cfg.IdleTimeout, stall: cfg.StallTimeout}
	g.frames.limits = limits{frames: cfg.MaxFrames, bytes: cfg.MaxMessage}
	g.reply = func(pong []byte) error {
		_, err := g.Write(pong)
		return err
	}
	var w *wire
	if err == nil {
		w, err = handshake(c, zmq4.Dealer, cfg.HandshakeTimeout, g)
	}
	if err != nil {
		stop()
		c.Close()
		return nil, fmt.Errorf("dial %s: %w", cfg.Endpoint, err)
	}
	return &Dealer{wire: w, limit: cfg.MaxMessage, stop: stop}, nil
}

// Send writes one message; it blocks for at most StallTimeout. It keeps no
// reference to frames. After an error the connection is of no more use.
func (d *Dealer) Send(frames ...[]byte) error {
	switch size := sizeOf(frames); {
	case len(frames) == 0:
		return endf(Internal, "message without frames")
	case size > d.limit:
		return endf(TooLarge, "message of %d bytes, limit %d", size, d.limit)
	}
	if _, err := d.wire.guard.Write(encode(frames)); err != nil {
		return endf(reasonOf(err, PeerClosed), "send: %w", err)
	}
	return nil
}

// Receive waits for the next message; its frames are the caller's, and there
// is at least one. After an error the connection is of no more use.
func (d *Dealer) Receive() ([][]byte, error) {
	frames, err := d.wire.receive()
	if err == nil && len(frames) == 0 {
		err = endf(Internal, "message without frames")
	}
	return frames, err
}

// Close ends the connection. Twice is harmless.
func (d *Dealer) Close() {
	d.stop()
	d.wire.guard.Close()
}
