package zmqsock

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
)

// recorded is a peer that has said all it will ever say.
type recorded struct {
	net.Conn
	io.Reader
	said bytes.Buffer
}

func (r *recorded) Read(p []byte) (int, error)       { return r.Reader.Read(p) }
func (r *recorded) Write(p []byte) (int, error)      { return r.said.Write(p) }
func (r *recorded) SetDeadline(time.Time) error      { return nil }
func (r *recorded) SetReadDeadline(time.Time) error  { return nil }
func (r *recorded) SetWriteDeadline(time.Time) error { return nil }

const (
	fuzzBytes  = 1000
	fuzzFrames = 4
)

// hear runs handshake and reception on what a peer says, until it ends.
func hear(said []byte) (messages [][][]byte, err error) {
	g := &guard{stall: time.Second}
	g.frames.limits = limits{frames: fuzzFrames, bytes: fuzzBytes}
	g.reply = func(pong []byte) error { _, err := g.Write(pong); return err }
	w, err := handshake(&recorded{Reader: bytes.NewReader(said)}, zmq4.Sub, time.Second, g)
	if err != nil {
		return nil, err
	}
	for {
		m, err := w.receive()
		if err != nil {
			return messages, err
		}
		messages = append(messages, m)
	}
}

// naive reads ZMTP traffic as the RFC words it, with all of it at hand.
func naive(b []byte) (messages [][][]byte) {
	var m [][]byte
	size := 0
	for len(b) >= 2 {
		flags, n, head := b[0], uint64(b[1]), 2
		if flags&2 != 0 {
			if len(b) < 9 {
				break
			}
			n, head = binary.BigEndian.Uint64(b[1:9]), 9
		}
		if flags > 7 || n > uint64(len(b)-head) {
			break
		}
		body := b[head : head+int(n)]
		b = b[head+int(n):]
		if flags&4 != 0 {
			ping := bytes.HasPrefix(body, []byte("\x04PING")) && len(body) >= 7 && len(body) <= 23
			if flags&1 != 0 || n > 255 || (!ping && !bytes.HasPrefix(body, []byte("\x04PONG"))) {
				break
			}
			continue
		}
		m, size = append(m, body), size+len(body)
		if len(m) > fuzzFrames || size > fuzzBytes {
			break
		}
		if flags&1 == 0 {
			messages = append(messages, m)
			m, size = nil, 0
		}
	}
	return messages
}

func handshakeBytes() []byte {
	b := make([]byte, greetingSize)
	b[0], b[9], b[10] = 0xff, 0x7f, 3
	copy(b[12:], "NULL")
	return append(b, "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"...)
}

// FuzzTraffic: whatever follows a good handshake, the guard and the codec
// behind it give the messages that the naive reading gives, and end.
func FuzzTraffic(f *testing.F) {
	f.Add([]byte("\x01\x05topic\x00\x03abc"))
	f.Add([]byte("\x01\x01a\x04\x09\x04PING\x00\x00hi\x00\x01b"))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x03abc\x02\x40\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x04\x05\x04PONG\x01\x00\x01\x00\x01\x00\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, traffic []byte) {
		// So short that the allowance, which depends on time, is not used up.
		traffic = traffic[:min(len(traffic), 7*allowanceBurst)]
		got, err := hear(append(handshakeBytes(), traffic...))
		if want := naive(traffic); !slices.EqualFunc(got, want, func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }) {
			t.Errorf("got %q, want %q (%v)", got, want, err)
		}
		if r := reasonOf(err, Internal); r == Internal {
			t.Errorf("ended with %v", err)
		}
	})
}

// FuzzHandshake: no first bytes get the codec to panic.
func FuzzHandshake(f *testing.F) {
	f.Add(handshakeBytes())
	f.Add(append(handshakeBytes()[:greetingSize], "\x04\x08\x05READY\x01A"...))
	f.Add(append(handshakeBytes()[:greetingSize], "\x04\x1d\x05READY\x0bSocket-Type\x00\x00\x00\x07NOTHING"...))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		if _, err := hear(said); reasonOf(err, Internal) == Internal {
			t.Errorf("ended with %v", err)
		}
	})
}

// FuzzEncode: what we put on the wire is read back as it was.
func FuzzEncode(f *testing.F) {
	f.Add([]byte("topic"), []byte("payload"))
	f.Add([]byte{}, make([]byte, 256))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		want := [][]byte{a, b, a}
		if sizeOf(want) > fuzzBytes {
			return
		}
		got, err := hear(append(handshakeBytes(), encode(want)...))
		if len(got) != 1 || !slices.EqualFunc(got[0], want, bytes.Equal) {
			t.Errorf("got %q, want %q (%v)", got, want, err)
		}
	})
}
