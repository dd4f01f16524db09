package envoy_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	processorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"mooring/envoy"
)

// pieces hands a body out in pieces of one size: each is one write of the
// client's.
type pieces struct {
	body []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.body) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.body[:min(p.size, len(p.body))])
	p.body = p.body[n:]
	return n, nil
}

// counted answers like a picker and counts the messages of the body, and those
// that say that it has ended.
type counted struct{ messages, ends, longest atomic.Int64 }

func (c *counted) play(s *session) error {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return nil
		}
		if b := m.GetRequestBody(); b != nil {
			c.messages.Add(1)
			c.longest.Store(max(c.longest.Load(), int64(len(b.GetBody()))))
			if b.GetEndOfStream() && c.ends.Add(1) > 1 {
				continue // said before: an answer would be a second end
			}
			if s.mode == processorv3.ProcessingMode_FULL_DUPLEX_STREAMED {
				if err := s.echo(b); err != nil {
					return err
				}
				continue
			}
		}
		if done, err := s.answer(m); done || err != nil {
			return err
		}
	}
}

// echo sends a piece back in pieces that Envoy takes: its own may be longer.
func (s *session) echo(b *extprocv3.HttpBody) error {
	const most = 62_000
	rest := b.GetBody()
	for len(rest) > most {
		if err := s.stream.Send(piece(&extprocv3.HttpBody{Body: rest[:most]})); err != nil {
			return err
		}
		rest = rest[most:]
	}
	return s.stream.Send(piece(&extprocv3.HttpBody{Body: rest, EndOfStream: b.GetEndOfStream()}))
}

// A long body arrives whole, however it was written, and Envoy says once or
// twice that it has ended.
func TestLongBodyByManySmallWrites(t *testing.T) {
	body := make([]byte, 5<<20)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(body)
	want := fmt.Sprintf("%x", sha256.Sum256(body))
	for _, mode := range []envoy.BodyMode{envoy.FullDuplex, envoy.HeadersOnly, envoy.Buffered} {
		r := startRig(t, func(c *envoy.Config) { c.BodyMode = mode })
		for _, size := range []int{1 << 10, 4 << 10, 16 << 10, 64 << 10} {
			for _, send := range []func(*rig, []byte, int) seen{overHTTP1, overHTTP1Chunked, overHTTP2} {
				c := new(counted)
				r.play(c.play)
				got := send(r, body, size)
				ends := c.ends.Load()
				if got.Body != len(body) || got.SHA256 != want {
					t.Errorf("mode %d, writes of %d: the worker got %d bytes, sha256 %s", mode, size, got.Body, got.SHA256)
				}
				switch {
				case mode == envoy.HeadersOnly && ends != 0, mode == envoy.Buffered && ends != 1, mode == envoy.FullDuplex && ends != 1 && ends != 2:
					t.Errorf("mode %d, writes of %d: end_of_stream %d times in %d messages", mode, size, ends, c.messages.Load())
				}
				if longest := c.longest.Load(); mode == envoy.FullDuplex && longest > 2<<20 {
					t.Errorf("a piece of %d bytes: more than twice Envoy's buffer", longest)
				}
				t.Logf("mode %d, writes of %d: end_of_stream %d times in %d messages of at most %d bytes", mode, size, ends, c.messages.Load(), c.longest.Load())
			}
		}
	}
}

func overHTTP1(r *rig, body []byte, size int) seen {
	return r.writeHTTP1(body, size, fmt.Sprintf("Content-Length: %d", len(body)), func(w io.Writer, piece []byte) { w.Write(piece) }, "")
}

func overHTTP1Chunked(r *rig, body []byte, size int) seen {
	return r.writeHTTP1(body, size, "Transfer-Encoding: chunked", func(w io.Writer, piece []byte) {
		fmt.Fprintf(w, "%x\r\n%s\r\n", len(piece), piece)
	}, "0\r\n\r\n")
}

// writeHTTP1 makes every piece a write to the socket.
func (r *rig) writeHTTP1(body []byte, size int, length string, write func(io.Writer, []byte), end string) seen {
	r.t.Helper()
	conn, err := net.DialTimeout("tcp", r.url[len("http://"):], bound)
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(bound))
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nx-test-pick: %s\r\n%s\r\n\r\n", r.workers[0].address, length)
	for from := 0; from < len(body); from += size {
		write(conn, body[from:min(from+size, len(body))])
	}
	io.WriteString(conn, end)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var got seen
	if err := json.Unmarshal(text, &got); err != nil {
		r.t.Fatalf("%d %s", resp.StatusCode, text)
	}
	return got
}

func overHTTP2(r *rig, body []byte, size int) seen {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	old := r.client
	defer func() { r.client = old }()
	r.client = &http.Client{Transport: transport, Timeout: bound}
	return r.send("/", &pieces{body, size}, "x-test-pick", r.workers[0].address).seen
}
