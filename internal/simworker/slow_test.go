package simworker

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of in-memory connections, whose deadlines follow the
// clock of a synctest bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// served runs test against a worker on in-memory connections, in a bubble.
func served(t *testing.T, cfg Config, test func(t *testing.T, w *Worker, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newWorker(t, cfg), newPipes()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Serve(ctx, p) }()
		test(t, w, p)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func writeRequest(t *testing.T, conn net.Conn, path, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://w"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
}

func TestStreamThatNobodyReadsIsCut(t *testing.T) {
	served(t, Config{}, func(t *testing.T, w *Worker, p *pipes) {
		conn := p.dial()
		defer conn.Close()
		writeRequest(t, conn, "/v1/completions", `{"prompt":"x","max_tokens":10000,"stream":true}`)
		time.Sleep(writeTimeout - time.Second)
		synctest.Wait()
		if running, _, _ := w.busy(0); running != 1 {
			t.Errorf("%d running before the time is over", running)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if running, _, _ := w.busy(0); running != 0 {
			t.Errorf("%d running after it", running)
		}
	})
}

// A stream's deadline must not hit the next response on its connection.
func TestWriteDeadlineEndsWithItsResponse(t *testing.T) {
	served(t, Config{FirstToken: 30 * time.Second}, func(t *testing.T, _ *Worker, p *pipes) {
		conn := p.dial()
		defer conn.Close()
		in := bufio.NewReader(conn)
		for _, body := range []string{`{"prompt":"x","stream":true}`, `{"prompt":"y"}`} {
			writeRequest(t, conn, "/v1/completions", body)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			if _, err := io.ReadAll(resp.Body); err != nil {
				t.Errorf("%s: %v", body, err)
			}
			time.Sleep(writeTimeout - 10*time.Second)
		}
	})
}

// Neither a body that a handler waits for nor one that nobody asked for can
// hold a connection for long.
func TestSlowBodyIsRefused(t *testing.T) {
	for path, status := range map[string]int{"/v1/completions": http.StatusRequestTimeout, "/nowhere": http.StatusNotFound} {
		served(t, Config{}, func(t *testing.T, w *Worker, p *pipes) {
			conn := p.dial()
			defer conn.Close()
			begin := time.Now()
			if _, err := io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: w\r\nContent-Length: 100\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if resp.StatusCode != status {
				t.Errorf("%s: %s", path, resp.Status)
			}
			if _, err := io.Copy(io.Discard, in); err != nil || time.Since(begin) > bodyTimeout+time.Second {
				t.Errorf("%s: connection open for %v, %v", path, time.Since(begin), err)
			}
			if got := w.Requests(); len(got) != 1 || got[0].BodyComplete {
				t.Errorf("%s: remembered %+v", path, got)
			}
		})
	}
}

// The time to read a body must not count against the time to answer it.
func TestReadDeadlineEndsWithTheBody(t *testing.T) {
	served(t, Config{FirstToken: 3 * bodyTimeout}, func(t *testing.T, _ *Worker, p *pipes) {
		conn := p.dial()
		defer conn.Close()
		writeRequest(t, conn, "/v1/completions", `{"prompt":"x"}`)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
			t.Errorf("%s, %v", resp.Status, err)
		}
	})
}
