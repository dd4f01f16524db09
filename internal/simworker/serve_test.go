package simworker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serving is a worker behind a real listener.
type serving struct {
	worker *Worker
	url    string
	stop   context.CancelFunc
	ended  chan error
}

func serve(t *testing.T, cfg Config) *serving {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &serving{worker: newWorker(t, cfg), url: "http://" + ln.Addr().String(), stop: stop, ended: make(chan error, 1)}
	go func() { s.ended <- s.worker.Serve(ctx, ln) }()
	t.Cleanup(stop)
	return s
}

// client speaks one protocol only. Its connections end with the test.
func client(t *testing.T, version int) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// eachProtocol runs a test over HTTP/1.1 and over unencrypted HTTP/2.
func eachProtocol(t *testing.T, test func(t *testing.T, version int)) {
	t.Run("HTTP1", func(t *testing.T) { test(t, 1) })
	t.Run("HTTP2", func(t *testing.T) { test(t, 2) })
}

func readAll(t *testing.T, r io.ReadCloser) string {
	t.Helper()
	defer r.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestServeOverBothProtocols(t *testing.T) {
	eachProtocol(t, func(t *testing.T, version int) {
		s := serve(t, Config{Name: "w7"})
		resp, err := client(t, version).Post(s.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		if resp.ProtoMajor != version || resp.Header.Get("x-sim-worker") != "w7" {
			t.Errorf("%s, headers %v", resp.Proto, resp.Header)
		}
		eventsOf(t, resp.Body)
		resp.Body.Close()
		if got := s.worker.Requests(); len(got) != 1 || got[0].Proto != resp.Proto {
			t.Errorf("remembered %+v", got)
		}
		s.stop()
		if err := <-s.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// The first chunk is read before the stop, so that the request runs; the rest
// must come after it.
func TestStopLetsStreamsFinish(t *testing.T) {
	eachProtocol(t, func(t *testing.T, version int) {
		s := serve(t, Config{})
		resp, err := client(t, version).Get(s.url + "/debug/stream?n=40&bytes=1000&every=5ms")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		first := make([]byte, 1000)
		if _, err := io.ReadFull(resp.Body, first); err != nil {
			t.Fatal(err)
		}
		s.stop()
		all := string(first) + readAll(t, resp.Body)
		if len(all) != 40_000 || resp.Trailer.Get(streamDigest) != digest(all) {
			t.Errorf("%d bytes, digest %q of %q", len(all), resp.Trailer.Get(streamDigest), digest(all))
		}
		if err := <-s.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://")); err == nil {
			t.Error("the listener is still open")
		}
	})
}

// A stream that outlasts the drain is cut: the client must see that it is not
// whole.
func TestDrainIsBounded(t *testing.T) {
	eachProtocol(t, func(t *testing.T, version int) {
		s := serve(t, Config{Drain: time.Millisecond, PerToken: time.Hour})
		resp, err := client(t, version).Post(s.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"x","stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		s.stop()
		if err := <-s.ended; !errors.Is(err, errDrain) {
			t.Errorf("Serve: %v, want %v", err, errDrain)
		}
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("the client took the stream for whole")
		}
		if running, waiting, usage := s.worker.busy(0); running != 0 || waiting != 0 || usage != 0 {
			t.Errorf("%d running, %d waiting, usage %v", running, waiting, usage)
		}
	})
}

// A client that goes away is noticed on both protocols. That the sequence has
// left the engine shows in Serve's end: its drain would otherwise take an hour.
func TestClientThatDisconnects(t *testing.T) {
	eachProtocol(t, func(t *testing.T, version int) {
		s := serve(t, Config{Drain: time.Hour, PerToken: time.Hour})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/chat/completions",
			strings.NewReader(`{"messages":[{"role":"user","content":"x"}],"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client(t, version).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		leave()
		resp.Body.Close()
		s.stop()
		if err := <-s.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if running, waiting, usage := s.worker.busy(0); running != 0 || waiting != 0 || usage != 0 {
			t.Errorf("%d running, %d waiting, usage %v", running, waiting, usage)
		}
	})
}

func TestServeOnAClosedListener(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := newWorker(t, Config{}).Serve(t.Context(), ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
}

func TestEchoOverBothProtocols(t *testing.T) {
	eachProtocol(t, func(t *testing.T, version int) {
		s := serve(t, Config{})
		body := strings.Repeat("0123456789", 300_000)
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/debug/echo", io.NopCloser(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Trailer = http.Header{"X-End": {"yes"}}
		resp, err := client(t, version).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got := readAll(t, resp.Body)
		if !strings.Contains(got, digest(body)) || !strings.Contains(got, `"bytes":3000000,"trailers":{"X-End":["yes"]}`) {
			t.Errorf("%s", got)
		}
	})
}

// A body that breaks off must be remembered as such and leave nothing behind.
func TestBodyThatBreaksOff(t *testing.T) {
	s := serve(t, Config{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /v1/completions HTTP/1.1\r\nHost: w\r\nContent-Length: 100\r\n\r\n{\"prom"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	got := s.worker.Requests()
	if len(got) != 1 || got[0].BodyComplete || got[0].BodyBytes != 6 || got[0].BodySHA256 != digest(`{"prom`) {
		t.Errorf("remembered %+v", got)
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
