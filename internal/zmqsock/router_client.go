package zmqsock

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// A client is one peer of a Router. Two goroutines serve it: one reads its
// requests, one answers them. Each ends the other.
type client struct {
	router   *Router
	conn     net.Conn
	requests chan [][]byte
	ctx      context.Context // ends when the connection is to end
	end      context.CancelFunc

	writing sync.Mutex // held while a whole message goes out

	once sync.Once
	why  error // an *ending; set before ctx ends
}

func newClient(r *Router, conn net.Conn) *client {
	c := &client{router: r, conn: conn, requests: make(chan [][]byte, r.cfg.MaxRequests)}
	c.ctx, c.end = context.WithCancel(r.ctx)
	return c
}

// cut ends the connection; the first reason counts.
func (c *client) cut(why error) {
	c.once.Do(func() {
		c.why = why
		c.end()
		c.conn.Close()
	})
}

// read takes requests until the connection ends, and says why it did.
func (c *client) read(w *wire) error {
	for {
		frames, err := w.receive()
		if err != nil {
			return err
		}
		if err := w.guard.asked.allow(time.Now()); err != nil {
			return err
		}
		select {
		case c.requests <- frames:
		default:
			return endf(Flood, "more than %d requests wait", cap(c.requests))
		}
	}
}

// serve answers requests until the connection ends, and says why it did.
func (c *client) serve() error {
	for {
		select {
		case <-c.ctx.Done():
			return endf(Stopped, "cut")
		case request := <-c.requests:
			if err := c.answer(request); err != nil {
				return err
			}
		}
	}
}

// answer gives one request to Serve.
func (c *client) answer(request [][]byte) (err error) {
	r := c.router
	ctx, cancel := context.WithTimeout(c.ctx, r.cfg.RequestTimeout)
	defer cancel()
	tooLong := func() error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return endf(Stalled, "an answer took more than %v", r.cfg.RequestTimeout)
		}
		return nil
	}
	// What ends the time also ends a write that blocks.
	defer context.AfterFunc(ctx, func() {
		if err := tooLong(); err != nil {
			c.cut(err)
		}
	})()
	r.requests.Add(1)
	err = r.cfg.Serve(ctx, request, func(frames ...[]byte) error {
		size := sizeOf(frames)
		if len(frames) == 0 || size > r.cfg.MaxReply {
			return endf(Internal, "reply of %d frames, %d bytes, limit %d", len(frames), size, r.cfg.MaxReply)
		}
		if ctx.Err() != nil {
			return endf(Stopped, "%w", ctx.Err())
		}
		if err := c.write(encode(frames)); err != nil {
			return err
		}
		r.replies.Add(1)
		r.replyBytes.Add(uint64(size))
		return nil
	})
	if late := tooLong(); late != nil { // Serve may have noticed first
		return late
	}
	if err != nil {
		return endf(reasonOf(err, Violation), "serve: %w", err)
	}
	return nil
}

// write writes a whole message, or a PONG between two.
func (c *client) write(data []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return writeChunks(c.conn, data, c.router.cfg.StallTimeout)
}
