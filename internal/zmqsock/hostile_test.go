package zmqsock_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"mooring/internal/zmqsock"
)

// TestHostile runs testdata/hostile.txt: each case is one peer's bytes.
func TestHostile(t *testing.T) {
	const short = 300 * time.Millisecond
	reasons, logger := newEnds()
	p := listen(t, zmqsock.PublisherConfig{HandshakeTimeout: short, StallTimeout: short, QueueBytes: 1 << 20, Logger: logger})
	first := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint(), Topics: []string{"n"}})
	n := 0
	datadriven.RunTest(t, "testdata/hostile.txt", func(t *testing.T, d *datadriven.TestData) string {
		n++
		switch d.Cmd {
		case "publisher":
			c, err := net.Dial("tcp", strings.TrimPrefix(p.Endpoint(), "tcp://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			play(t, c, d.Input, func() { p.Publish([][]byte{make([]byte, 64<<10)}) })
			reason := receive(t, reasons, "end of the hostile connection")
			newcomer := subscribe(t, zmqsock.SubscriberConfig{Endpoint: p.Endpoint(), Topics: []string{"n"}})
			join(t, p, newcomer, fmt.Sprint("n", n))
			join(t, p, first, fmt.Sprint("n", n, "+"))
			newcomer.stop()
			receive(t, reasons, "end of the newcomer")
			return reason + "; others fine\n"
		case "subscriber":
			return againstSubscriber(t, d.Input, short) + "\n"
		}
		d.Fatalf(t, "unknown command %q", d.Cmd)
		return ""
	})
}

func againstSubscriber(t *testing.T, script string, short time.Duration) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := subscribe(t, zmqsock.SubscriberConfig{
		Endpoint: "tcp://" + l.Addr().String(), HandshakeTimeout: short, IdleTimeout: short,
		StallTimeout: short, MinBackoff: time.Millisecond,
	})
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	play(t, c, script, nil)
	lost := until(t, s.events, "loss", func(e zmqsock.Event) bool { return !e.Connected })
	c.Close()
	if c, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	play(t, c, "greeting\nready PUB\nhex 0005 676f6f6421", nil)
	until(t, s.Messages(), "message after the loss", func(m zmqsock.Message) bool { return string(m.Frames[0]) == "good!" })
	s.stop()
	return lost.Reason.String() + "; recovered"
}

// play writes what the script says. Errors of writing are the victim's right.
func play(t *testing.T, c net.Conn, script string, traffic func()) {
	t.Helper()
	w := bufio.NewWriterSize(c, 1<<16)
	reads := true
	for line := range strings.Lines(script) {
		cmd, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch cmd {
		case "silent":
		case "close":
			w.Flush()
			c.(*net.TCPConn).CloseWrite()
		case "greeting":
			w.Write(greeting(rest))
		case "ready":
			w.Write(ready(rest))
		case "hex":
			w.Write(unhex(t, rest))
		case "text":
			s, err := strconv.Unquote(rest)
			if err != nil {
				t.Fatal(err)
			}
			w.WriteString(s)
		case "random":
			r := rand.NewChaCha8([32]byte{1})
			io.CopyN(w, r, int64(number(t, rest)))
		case "frame":
			flags, size, _ := strings.Cut(rest, " ")
			w.Write(binary.BigEndian.AppendUint64(unhex(t, flags), number(t, size)))
		case "topics":
			for i := range number(t, rest) {
				fmt.Fprintf(w, "\x00\x09\x01%08x", i)
			}
		case "repeat":
			n, what, _ := strings.Cut(rest, " ")
			b := unhex(t, what)
			for range number(t, n) {
				w.Write(b)
			}
		case "expect":
			w.Flush()
			expect(t, c, unhex(t, rest))
		case "deaf":
			w.Flush()
			reads = false
			for range 400 { // 25 MiB: more than the kernel takes
				traffic()
				time.Sleep(time.Millisecond)
			}
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	w.Flush()
	if reads {
		go io.Copy(io.Discard, c)
	}
}

// expect reads past the greeting and READY of the other side.
func expect(t *testing.T, c net.Conn, want []byte) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	r := bufio.NewReader(c)
	r.Discard(64)
	head := make([]byte, 2)
	io.ReadFull(r, head)
	r.Discard(int(head[1]))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got % x, %v, want % x", got, err, want)
	}
}

func greeting(mechanism string) []byte {
	if mechanism == "" {
		mechanism = "NULL"
	}
	b := make([]byte, 64)
	b[0], b[9], b[10] = 0xff, 0x7f, 3
	copy(b[12:], mechanism)
	return b
}

func ready(kind string) []byte {
	body := append([]byte("\x05READY\x0bSocket-Type\x00\x00\x00"), byte(len(kind)))
	body = append(body, kind...)
	return append([]byte{4, byte(len(body))}, body...)
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func number(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
