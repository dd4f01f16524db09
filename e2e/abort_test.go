package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAbortedRequestsLeaveNothing has clients leave at random points: while they
// send, before the pick, while they wait, and while they read. Afterwards every
// gauge is where it was, and the workers have nothing running.
func TestAbortedRequestsLeaveNothing(t *testing.T) {
	requests := 2000
	if os.Getenv("MOORING_LONG") != "" {
		requests = 10_000
	}
	for _, mode := range []string{"full_duplex", "buffered"} {
		t.Run(mode, func(t *testing.T) {
			s := newStack(t, stackConfig{models: []string{"a", "a", "b"}, envoyYAML: "body_mode: " + mode})
			const seed = 20261129
			random := rand.New(rand.NewPCG(seed, 0))
			clients := []*http.Client{http1(), http2()}
			slots := make(chan struct{}, 32)
			var wg sync.WaitGroup
			for n := range requests {
				slots <- struct{}{}
				client, after := clients[n%2], time.Duration(random.IntN(12_000))*time.Microsecond
				shape := random.IntN(4)
				wg.Go(func() {
					defer func() { <-slots }()
					s.abort(client, shape, n, after)
				})
			}
			wg.Wait()
			for _, name := range []string{"mooring_streams", "mooring_leases"} {
				eventually(t, 15*time.Second, name+" back at 0", func() bool { return s.metric(name) == 0 })
			}
			s.checkNothingLive()
			for _, w := range s.workers {
				eventually(t, 5*time.Second, "nothing running on "+w.address, func() bool { return w.running(t) == 0 })
			}
			t.Logf("%d requests aborted (seed %d); ends joined without a lease id: %v", requests, seed, s.metric("mooring_ends_joined_total"))
		})
	}
}

// abort sends a request and leaves it after a while, or by itself if it was
// faster than that.
func (s *stack) abort(client *http.Client, shape, n int, after time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	body := fmt.Sprintf(`{"model":"a","stream":true,"max_tokens":40,"messages":[{"role":"user","content":"hello %d"}]}`, n)
	var reader io.Reader = strings.NewReader(body)
	method, path := http.MethodPost, "/v1/chat/completions"
	switch shape {
	case 1: // a large upload
		reader, path = strings.NewReader(`{"model":"a","pad":"`+strings.Repeat("x", 2<<20)+`"}`), "/debug/echo"
	case 2: // a body that does not end
		reader = io.MultiReader(strings.NewReader(body[:20]), blockedReader{ctx})
	case 3: // no body
		method, path, reader = http.MethodGet, "/debug/stream?n=50&bytes=100&every=1ms", nil
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.gateway+path, reader)
	if err != nil {
		s.t.Error(err)
		return
	}
	req.Header.Set("X-Session-Id", fmt.Sprint("abort-", n%97))
	resp, err := client.Do(req)
	if err != nil {
		return // left before the response
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
}

// blockedReader never yields a byte and ends with its context.
type blockedReader struct{ ctx context.Context }

func (b blockedReader) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// running asks a worker how many requests it runs.
func (w *simWorker) running(t *testing.T) float64 {
	t.Helper()
	return metricAt(t, "http://"+w.address+"/metrics", "vllm:num_requests_running")
}

// TestOneRequestIDTwiceEndsTwoLeases repeats one x-request-id, as clients may,
// in requests that overlap.
func TestOneRequestIDTwiceEndsTwoLeases(t *testing.T) {
	s := newStack(t, stackConfig{})
	client := http1()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			r, err := send(client, http.MethodGet, s.gateway, "/debug/stream?n=10&bytes=10&every=5ms", nil,
				map[string]string{"X-Request-Id": "4c3f1cf6-0000-4000-8000-000000000001", "X-Session-Id": fmt.Sprint("twin-", i%2)})
			if err != nil || r.status != http.StatusOK {
				t.Errorf("%v, status %d: %s", err, r.status, r.body)
			}
		})
	}
	wg.Wait()
	eventually(t, 5*time.Second, "no lease left", func() bool { return s.metric("mooring_leases") == 0 })
	s.checkNothingLive()
}

// TestGarbageOnTheFiltersPortHarmsNobody sends what is no gRPC to the filter's
// socket.
func TestGarbageOnTheFiltersPortHarmsNobody(t *testing.T) {
	s := newStack(t, stackConfig{})
	for _, garbage := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", strings.Repeat("\xff", 4096), ""} {
		conn, err := net.Dial("unix", s.dir+"/extproc.sock")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, garbage)
		defer conn.Close() // stays open: a silent connection must not be in the way
	}
	r, err := post(http1(), s.gateway, "/v1/completions", []byte(`{"model":"sim","prompt":"x","max_tokens":1}`), nil)
	if err != nil || r.status != http.StatusOK {
		t.Errorf("%v, status %d: %s", err, r.status, r.body)
	}
}
