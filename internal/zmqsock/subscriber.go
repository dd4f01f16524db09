package zmqsock

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-zeromq/zmq4"
)

// Message is what a publisher sent.
type Message struct {
	// Frames are the receiver's. There is at least one, but in a mark of
	// MarkDrops, which has none.
	Frames [][]byte
	// Dropped counts, in a mark, the messages that would have been here.
	Dropped uint64
	// Connection is the Connection of the event that announced the connection
	// it came on. Where it differs from the message before, there may be a gap.
	Connection uint64
}

// Event is a change of a subscriber's connection.
type Event struct {
	// Connected: the handshake is over and all subscriptions are sent. If not,
	// a connection was lost or an attempt was in vain, Reason says why.
	Connected bool
	// Connection counts the connections, from 1. With a vain attempt it is that
	// of the last one.
	Connection uint64
	// Reason and Err say why it ended; Stopped and nil while Connected.
	Reason Reason
	Err    error
	// Retry is the pause before the next attempt.
	Retry time.Duration
}

// Subscriber is a SUB socket for one publisher. It dials, subscribes, receives,
// and starts anew when the connection ends, whatever ended it.
type Subscriber struct {
	cfg  SubscriberConfig
	addr string
	in   *queue[Message]
	out  chan Message

	since time.Time // when this connection was made, zero: not yet; owned by Run

	connected                                           atomic.Bool
	connections, received, bytes, dropped, droppedBytes atomic.Uint64
	heard                                               atomic.Int64 // Unix nanoseconds, 0: never
	reasons                                             tally
}

// SubscriberStats are counts since NewSubscriber.
type SubscriberStats struct {
	Connected    bool
	Connections  uint64 // handshakes completed
	Received     uint64 // messages, the dropped ones included
	Bytes        uint64 // of their frames
	Dropped      uint64 // messages that found the queue full
	DroppedBytes uint64
	LastMessage  time.Time // zero: none yet
	// Ended counts lost connections and vain attempts, by reason.
	Ended map[Reason]uint64
}

// NewSubscriber checks cfg. Nothing is dialled before Run.
func NewSubscriber(cfg SubscriberConfig) (*Subscriber, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	addr, err := hostPort(cfg.Endpoint, false)
	if err != nil {
		return nil, err
	}
	return &Subscriber{
		cfg: cfg, addr: addr, out: make(chan Message),
		in: newQueue[Message](cfg.QueueMessages, cfg.QueueBytes),
	}, nil
}

// Messages is where messages are taken. It is closed when Run has ended.
func (s *Subscriber) Messages() <-chan Message { return s.out }

// Stats returns a snapshot; counts that belong together may be one apart.
func (s *Subscriber) Stats() SubscriberStats {
	st := SubscriberStats{
		Connected: s.connected.Load(), Connections: s.connections.Load(), Received: s.received.Load(),
		Bytes: s.bytes.Load(), Dropped: s.dropped.Load(), DroppedBytes: s.droppedBytes.Load(),
		Ended: s.reasons.snapshot(),
	}
	if ns := s.heard.Load(); ns != 0 {
		st.LastMessage = time.Unix(0, ns)
	}
	return st
}

// Run keeps the connection until ctx ends, then returns its error; by then all
// that it started has ended. Messages not yet taken are discarded. Call it once.
func (s *Subscriber) Run(ctx context.Context) error {
	handed := make(chan struct{})
	go func() { defer close(handed); s.handOver(ctx) }()
	pauses := backoff{shortest: s.cfg.MinBackoff, longest: s.cfg.MaxBackoff}
	for {
		s.since = time.Time{}
		before := s.received.Load()
		err := s.connection(ctx)
		if ctx.Err() != nil {
			err = endf(Stopped, "%w", context.Cause(ctx))
		}
		if s.received.Load() != before || (!s.since.IsZero() && time.Since(s.since) > s.cfg.MaxBackoff) {
			pauses.last = 0 // it worked: this is a new trouble
		}
		wait := pauses.next()
		s.lost(err, wait)
		select {
		case <-ctx.Done():
			<-handed
			close(s.out)
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (s *Subscriber) lost(err error, retry time.Duration) {
	s.connected.Store(false)
	e := Event{Connection: s.connections.Load(), Reason: reasonOf(err, Internal), Err: err, Retry: retry}
	s.reasons[e.Reason].Add(1)
	s.cfg.Logger.Debug("publisher lost", "endpoint", s.cfg.Endpoint, "reason", e.Reason.String(), "error", err, "retry_ms", retry.Milliseconds())
	s.cfg.Notify(e)
}

// connection is one attempt, from the dial to the end, which it returns as an
// *ending.
func (s *Subscriber) connection(ctx context.Context) error {
	d := net.Dialer{Timeout: s.cfg.DialTimeout, KeepAliveConfig: keepAlive()}
	c, err := d.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return endf(Unreachable, "%w", err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if c.LocalAddr().String() == c.RemoteAddr().String() {
		// Loopback only: with nobody listening, TCP may connect a port of the
		// ephemeral range to itself, which would keep the publisher from it.
		return endf(Unreachable, "connected to itself")
	}
	g := &guard{stall: s.cfg.StallTimeout}
	if s.cfg.IdleTopic == "" {
		g.idle = s.cfg.IdleTimeout
	}
	g.frames.limits = limits{frames: s.cfg.MaxFrames, bytes: s.cfg.MaxMessage}
	g.reply = func(pong []byte) error {
		_, err := g.Write(pong)
		return err
	}
	w, err := handshake(c, zmq4.Sub, s.cfg.HandshakeTimeout, g)
	if err != nil {
		return err
	}
	for _, t := range s.cfg.Topics {
		if err := w.subscribe(t); err != nil {
			return err
		}
	}
	n := s.connections.Add(1)
	s.since = time.Now()
	s.connected.Store(true)
	s.cfg.Logger.Debug("publisher connected", "endpoint", s.cfg.Endpoint, "connection", n)
	s.cfg.Notify(Event{Connected: true, Connection: n})
	return s.receive(w, n)
}

func (s *Subscriber) receive(w *wire, connection uint64) error {
	for {
		frames, err := w.receive()
		if err != nil {
			return err
		}
		if len(frames) == 0 {
			return endf(Internal, "message without frames")
		}
		if s.cfg.IdleTopic != "" && string(frames[0]) == s.cfg.IdleTopic {
			w.guard.idle = s.cfg.IdleTimeout
		}
		size := sizeOf(frames)
		s.received.Add(1)
		s.bytes.Add(uint64(size))
		s.heard.Store(time.Now().UnixNano())
		if !s.in.push(Message{Frames: frames, Connection: connection}, size) {
			s.dropped.Add(1)
			s.droppedBytes.Add(uint64(size))
			if s.cfg.MarkDrops {
				s.in.mark(func(m *Message) { m.Connection, m.Dropped = connection, m.Dropped+1 })
			}
		}
	}
}

// handOver moves messages from the queue to whoever takes them.
func (s *Subscriber) handOver(ctx context.Context) {
	var taken []Message
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.in.wake:
		}
		taken, _ = s.in.take(taken)
		for i, m := range taken {
			select {
			case <-ctx.Done():
				return
			case s.out <- m:
			}
			taken[i] = Message{}
			s.in.done(1, sizeOf(m.Frames))
		}
	}
}
