package zmqsock

import (
	"bufio"
	"net"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"
)

// A wire is a connection whose handshake is over.
type wire struct {
	guard *guard
	codec *zmq4.Conn
}

// handshake exchanges greetings and READY on c within the given time. It
// blocks; closing c ends it. The error is an *ending. The caller closes c.
func handshake(c net.Conn, ours zmq4.SocketType, within time.Duration, g *guard) (w *wire, err error) {
	g.Conn = c
	g.in = bufio.NewReaderSize(source{g}, 32<<10)
	g.fits = peersOf(ours)
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return nil, endf(whoClosed(err), "set deadline: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			w, err = nil, endf(Internal, "handshake: panic: %v", p)
		}
	}()
	codec, err := zmq4.Open(g, null.Security(), ours, nil, ours == zmq4.Pub, nil)
	if err != nil {
		if g.ended != nil {
			err = g.ended
		}
		return nil, endf(reasonOf(err, HandshakeInvalid), "handshake: %w", err)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, endf(whoClosed(err), "clear deadline: %w", err)
	}
	return &wire{guard: g, codec: codec}, nil
}

// receive returns the frames of the next message; they are the caller's. The
// error is an *ending, and is the last answer.
func (w *wire) receive() (frames [][]byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			frames, err = nil, endf(Internal, "receive: panic: %v", p)
		}
	}()
	msg, err := w.codec.RecvMsg()
	if err != nil {
		if w.guard.ended != nil {
			err = w.guard.ended
		}
		return nil, endf(reasonOf(err, PeerClosed), "receive: %w", err)
	}
	return msg.Frames, nil
}

// subscribe sends one subscription; the error is an *ending.
func (w *wire) subscribe(topic string) error {
	err := w.codec.SendMsg(zmq4.NewMsg(append([]byte{1}, topic...)))
	if err != nil {
		return endf(reasonOf(err, PeerClosed), "subscribe: %w", err)
	}
	return nil
}

// peersOf returns the socket types that may be at the other end of ours.
func peersOf(ours zmq4.SocketType) [2]zmq4.SocketType {
	switch ours {
	case zmq4.Sub:
		return [2]zmq4.SocketType{zmq4.Pub, zmq4.XPub}
	case zmq4.Router:
		return [2]zmq4.SocketType{zmq4.Dealer, zmq4.Req}
	case zmq4.Dealer:
		return [2]zmq4.SocketType{zmq4.Router, zmq4.Rep}
	}
	return [2]zmq4.SocketType{zmq4.Sub, zmq4.XSub}
}
