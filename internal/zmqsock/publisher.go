package zmqsock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrClosed is what Publish says after Close.
	ErrClosed = errors.New("publisher is closed")
	// ErrMessage is a message without frames or over MaxMessage.
	ErrMessage = errors.New("message cannot be published")
)

// Publisher is a bound PUB socket. All methods may be called concurrently.
type Publisher struct {
	door
	cfg   PublisherConfig
	peers atomic.Pointer[[]*peer] // replaced whole under mu
	ended func() bool             // stops watching the context

	mu struct {
		sync.Mutex
		closed bool
		late   *time.Timer // ends the linger
	}

	published, sent, dropped, droppedBytes atomic.Uint64
}

// PublisherStats are counts since Listen, and how many peers there are.
type PublisherStats struct {
	Peers        int    // subscribers now
	Handshakes   int    // connections not that far yet
	Accepted     uint64 // TCP connections
	Published    uint64 // messages given to Publish and taken
	Queued       uint64 // of these, queued for a peer: one for each
	Dropped      uint64 // of these, not queued because a peer's queue was full: one for each
	DroppedBytes uint64
	// Ended counts the connections that ended, by reason.
	Ended map[Reason]uint64
}

// Listen binds the endpoint and starts to serve. When ctx ends, the publisher
// closes, as by Close. The caller calls Close in any case.
func Listen(ctx context.Context, cfg PublisherConfig) (*Publisher, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Publisher{cfg: cfg}
	if err := p.open(ctx, cfg.Endpoint, cfg.MaxHandshakes, cfg.Logger); err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	p.peers.Store(new([]*peer))
	p.ended = context.AfterFunc(ctx, p.stop)
	p.all.Go(func() { p.accept(p.converse) })
	return p, nil
}

// Endpoint returns where it is bound, with the port really used, as
// "tcp://HOST:PORT".
func (p *Publisher) Endpoint() string { return "tcp://" + p.listener.Addr().String() }

// Publish queues one message for each peer that subscribed a prefix of its
// first frame. It copies the frames, does not block and does not wait for
// anybody; nil does not mean that anybody got it. Messages of one goroutine
// keep their order. The errors are ErrClosed and ErrMessage.
func (p *Publisher) Publish(frames [][]byte) error {
	if size := sizeOf(frames); len(frames) == 0 || size > p.cfg.MaxMessage {
		return fmt.Errorf("%w: %d frames, %d bytes, limit %d", ErrMessage, len(frames), size, p.cfg.MaxMessage)
	}
	select {
	case <-p.closing:
		return ErrClosed
	default:
	}
	p.published.Add(1)
	var wire []byte
	for _, to := range *p.peers.Load() {
		if !to.wants(frames[0]) {
			continue
		}
		if wire == nil {
			wire = encode(frames)
		}
		if to.out.push(wire, len(wire)) {
			p.sent.Add(1)
		} else {
			p.dropped.Add(1)
			p.droppedBytes.Add(uint64(len(wire)))
		}
	}
	return nil
}

// Stats returns a snapshot; counts that belong together may be one apart.
func (p *Publisher) Stats() PublisherStats {
	p.pending.mu.Lock()
	handshakes := len(p.pending.mu.list)
	p.pending.mu.Unlock()
	return PublisherStats{
		Peers: len(*p.peers.Load()), Handshakes: handshakes, Accepted: p.accepted.Load(),
		Published: p.published.Load(), Queued: p.sent.Load(), Dropped: p.dropped.Load(),
		DroppedBytes: p.droppedBytes.Load(), Ended: p.reasons.snapshot(),
	}
}

// Close lets queued messages go out for Linger at most, ends every connection,
// and returns when nothing of the publisher is left running. Twice is harmless.
func (p *Publisher) Close() error {
	p.ended()
	p.stop()
	p.all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.late != nil {
		p.mu.late.Stop()
	}
	return nil
}

// stop starts the end of everything; it does not wait.
func (p *Publisher) stop() {
	p.mu.Lock()
	if p.mu.closed {
		p.mu.Unlock()
		return
	}
	p.mu.closed = true
	close(p.closing)
	peers := *p.peers.Load() // all there will be: admit looks at closed
	if p.cfg.Linger > 0 {
		p.mu.late = time.AfterFunc(p.cfg.Linger, func() {
			for _, to := range peers {
				to.cut(endf(Stopped, "linger is over"))
			}
		})
	}
	p.mu.Unlock()

	p.listener.Close()
	for _, e := range p.pending.close() {
		e.conn.Close()
	}
	for _, to := range peers {
		if p.cfg.Linger <= 0 {
			to.cut(endf(Stopped, "publisher closed"))
			continue
		}
		to.out.finish()
	}
}

// admit makes to one of the peers, unless there are too many or it is too late.
func (p *Publisher) admit(to *peer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	have := *p.peers.Load()
	same := 0
	for _, o := range have {
		if o.addr == to.addr {
			same++
		}
	}
	switch {
	case p.mu.closed:
		return endf(Stopped, "publisher closed")
	case len(have) >= p.cfg.MaxPeers:
		return endf(Crowded, "%d peers", len(have))
	case same >= p.cfg.MaxPeersPerAddress:
		return endf(Crowded, "%d peers of %s", same, to.addr)
	}
	next := append(slices.Clone(have), to)
	p.peers.Store(&next)
	return nil
}

func (p *Publisher) dismiss(to *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(*p.peers.Load()), func(o *peer) bool { return o == to })
	p.peers.Store(&next)
}
