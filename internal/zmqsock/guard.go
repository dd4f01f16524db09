package zmqsock

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/go-zeromq/zmq4"
)

const greetingSize = 64

// A phase says what has to come next on a connection.
type phase uint8

const (
	wantGreeting phase = iota
	wantReady
	inTraffic
)

// guard is the net.Conn that the codec gets instead of the TCP connection. Its
// Read hands over only bytes that were checked: the greeting, one READY, then
// headers and bodies of message frames within the limits. Commands end here.
//
// One goroutine reads and, until the handshake is over, writes.
type guard struct {
	net.Conn // TCP

	in    *bufio.Reader
	fits  [2]zmq4.SocketType // the peer's socket types that go with ours
	idle  time.Duration      // longest silence between messages; 0: any
	stall time.Duration      // longest silence within a message, longest write
	reply func(frame []byte) error

	// Owned by the reader.
	phase   phase
	frames  checker
	asked   allowance
	checked []byte // may be handed over
	head    [9]byte
	body    uint64 // bytes after those that belong to the same frame
	ended   error  // the first error, before the codec wrapped it
}

// Read fills p with checked bytes.
func (g *guard) Read(p []byte) (int, error) {
	for len(g.checked) == 0 && g.body == 0 {
		if g.ended == nil {
			g.ended = g.advance()
		}
		if g.ended != nil {
			return 0, g.ended
		}
	}
	if len(g.checked) > 0 {
		n := copy(p, g.checked)
		g.checked = g.checked[n:]
		return n, nil
	}
	n, err := g.in.Read(p[:min(uint64(len(p)), g.body)])
	g.body -= uint64(n)
	if err != nil && n == 0 {
		g.ended = err
		return 0, err
	}
	return n, nil
}

// Write writes under a deadline: that of the handshake, then StallTimeout.
func (g *guard) Write(p []byte) (int, error) {
	if g.phase == inTraffic {
		if err := g.SetWriteDeadline(time.Now().Add(g.stall)); err != nil {
			return 0, endf(whoClosed(err), "write: %w", err)
		}
	}
	n, err := g.Conn.Write(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, endf(Stalled, "write: %w", err)
	}
	return n, endf(whoClosed(err), "write: %w", err)
}

// advance checks what comes next and sets checked and body, or deals with it.
func (g *guard) advance() error {
	switch g.phase {
	case wantGreeting:
		return g.greeting()
	case wantReady:
		return g.ready()
	}
	return g.frame()
}

func (g *guard) greeting() error {
	// The signature first: who speaks another protocol seldom sends 64 bytes.
	b, err := g.in.Peek(11)
	if err != nil {
		return err
	}
	if b[0] != 0xff || b[9] != 0x7f || b[10] < 3 {
		return endf(HandshakeInvalid, "no ZMTP 3 greeting")
	}
	g.checked = make([]byte, greetingSize)
	g.phase = wantReady
	_, err = io.ReadFull(g.in, g.checked)
	return err
}

func (g *guard) ready() error {
	flags, size, header, err := g.header()
	if err != nil {
		return err
	}
	if flags&^flagLong != flagCommand || size > maxReady {
		return endf(HandshakeInvalid, "want READY, got a frame of %d bytes with flags %#02x", size, flags)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(g.in, body); err != nil {
		return err
	}
	if err := checkReady(body, g.fits); err != nil {
		return err
	}
	g.checked = append(header, body...)
	g.phase = inTraffic
	return nil
}

func (g *guard) frame() error {
	flags, size, header, err := g.header()
	if err != nil {
		return err
	}
	if err := g.frames.header(flags, size); err != nil {
		return err
	}
	if flags&flagCommand == 0 {
		g.checked, g.body = header, size
		return nil
	}
	body := make([]byte, size)
	g.body = size // for the deadline: in mid-frame
	if _, err := io.ReadFull(g.in, body); err != nil {
		return err
	}
	g.body = 0
	if err := g.asked.allow(time.Now()); err != nil {
		return err
	}
	pong, err := answer(body)
	if err != nil || pong == nil {
		return err
	}
	return g.reply(pong)
}

// header reads a frame's header and returns it also as it was, until the next.
func (g *guard) header() (flags byte, size uint64, raw []byte, err error) {
	b, err := g.in.Peek(2)
	if err != nil {
		return 0, 0, nil, err
	}
	n := 2
	if b[0]&flagLong != 0 {
		n = 9
		if b, err = g.in.Peek(n); err != nil {
			return 0, 0, nil, err
		}
		size = binary.BigEndian.Uint64(b[1:])
	} else {
		size = uint64(b[1])
	}
	raw = g.head[:copy(g.head[:], b)]
	if _, err := g.in.Discard(n); err != nil {
		return 0, 0, nil, err
	}
	return raw[0], size, raw, nil
}

// A source is what the guard's buffer reads: TCP, each read under the deadline
// that fits where the stream is.
type source struct{ g *guard }

func (s source) Read(p []byte) (int, error) {
	g := s.g
	silence := Stalled
	if g.phase == inTraffic {
		until, between := time.Time{}, g.body == 0 && g.in.Buffered() == 0 && g.frames.between()
		switch {
		case !between:
			until = time.Now().Add(g.stall)
		case g.idle > 0:
			silence, until = Idle, time.Now().Add(g.idle)
		}
		if err := g.SetReadDeadline(until); err != nil {
			return 0, endf(whoClosed(err), "read: %w", err)
		}
	} else {
		silence = HandshakeTimeout
	}
	n, err := g.Conn.Read(p)
	switch {
	case err == nil || n > 0:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, endf(silence, "read: %w", err)
	}
	return 0, endf(whoClosed(err), "read: %w", err)
}
