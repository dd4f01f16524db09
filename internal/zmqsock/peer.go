package zmqsock

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	batchBytes = 64 << 10  // small messages are gathered up to this
	chunkBytes = 256 << 10 // and large ones written in pieces, each with its own deadline
)

// A peer is one subscriber of a Publisher. Two goroutines serve it: one reads
// its subscriptions, one writes what its queue holds. Each ends the other.
type peer struct {
	conn   net.Conn
	addr   netip.Addr
	out    *queue[[]byte]
	topics atomic.Pointer[[][]byte] // replaced whole by the reader
	gone   chan struct{}            // closed when the connection is to end

	once sync.Once
	why  error // an *ending; set before gone is closed
}

func newPeer(c net.Conn, cfg *PublisherConfig) *peer {
	p := &peer{
		conn: c, addr: remoteAddr(c), gone: make(chan struct{}),
		out: newQueue[[]byte](cfg.QueueMessages, cfg.QueueBytes),
	}
	p.topics.Store(new([][]byte))
	return p
}

// cut ends the connection; the first reason counts.
func (p *peer) cut(why error) {
	p.once.Do(func() {
		p.why = why
		close(p.gone)
		p.conn.Close()
	})
}

// wants reports whether a message with this first frame is subscribed.
func (p *peer) wants(first []byte) bool {
	for _, t := range *p.topics.Load() {
		if bytes.HasPrefix(first, t) {
			return true
		}
	}
	return false
}

// read takes subscriptions until the connection ends, and says why it did.
func (p *peer) read(w *wire, maxTopics int) error {
	for {
		frames, err := w.receive()
		if err != nil {
			return err
		}
		if err := w.guard.asked.allow(time.Now()); err != nil {
			return err
		}
		if err := p.subscription(frames, maxTopics); err != nil {
			return err
		}
	}
}

// subscription applies 01 TOPIC (subscribe) or 00 TOPIC (unsubscribe).
func (p *peer) subscription(frames [][]byte, maxTopics int) error {
	if len(frames) != 1 || len(frames[0]) == 0 || frames[0][0] > 1 {
		return endf(Violation, "a subscriber sent something else than a subscription")
	}
	on, topic := frames[0][0] == 1, frames[0][1:]
	have := *p.topics.Load()
	i := slices.IndexFunc(have, func(t []byte) bool { return bytes.Equal(t, topic) })
	switch {
	case on && i < 0 && len(have) >= maxTopics:
		return endf(Flood, "more than %d topics", maxTopics)
	case on && i < 0:
		next := append(slices.Clone(have), topic)
		p.topics.Store(&next)
	case !on && i >= 0:
		next := slices.Delete(slices.Clone(have), i, i+1)
		p.topics.Store(&next)
	}
	return nil
}

// write writes the queue until the connection ends or the queue is finished
// and empty, and says why. Whatever waits goes out in as few writes as may be.
func (p *peer) write(stall time.Duration) error {
	var taken [][]byte
	batch := make([]byte, 0, batchBytes)
	for {
		select {
		case <-p.gone:
			return endf(Stopped, "cut")
		case <-p.out.wake:
		}
		var last bool
		if taken, last = p.out.take(taken); last && len(taken) == 0 {
			return endf(Stopped, "publisher closed")
		}
		for i := 0; i < len(taken); {
			n, size := gather(taken[i:])
			data := taken[i]
			if n > 1 {
				batch = append(batch[:0], taken[i]...)
				for _, m := range taken[i+1 : i+n] {
					batch = append(batch, m...)
				}
				data = batch
			}
			if err := writeChunks(p.conn, data, stall); err != nil {
				return err
			}
			clear(taken[i : i+n])
			p.out.done(n, size)
			i += n
		}
		if last {
			p.out.signal()
		}
	}
}

// gather returns how many messages fit one batch, at least one, and their size.
func gather(messages [][]byte) (n, size int) {
	for n < len(messages) && (n == 0 || size+len(messages[n]) <= batchBytes) {
		size += len(messages[n])
		n++
	}
	return n, size
}

func writeChunks(c net.Conn, data []byte, stall time.Duration) error {
	for chunk := range slices.Chunk(data, chunkBytes) {
		if err := c.SetWriteDeadline(time.Now().Add(stall)); err != nil {
			return endf(PeerClosed, "write: %w", err)
		}
		if _, err := c.Write(chunk); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return endf(Stalled, "write: %w", err)
			}
			return endf(PeerClosed, "write: %w", err)
		}
	}
	return nil
}

// remoteAddr returns the peer's address without port, zero if it has none.
func remoteAddr(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
