package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// stream starts a response of many small pieces and returns it once its first
// piece has arrived.
type stream struct {
	t    *testing.T
	resp *http.Response
	want int // bytes in all
	got  int
}

func (s *stack) startStream(client *http.Client, session string, pieces int, every time.Duration) *stream {
	s.t.Helper()
	const size = 64
	path := fmt.Sprintf("/debug/stream?n=%d&bytes=%d&every=%s", pieces, size, every)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+s.gateway+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-Session-Id", session)
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	st := &stream{t: s.t, resp: resp, want: pieces * size}
	s.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("stream: status %d", resp.StatusCode)
	}
	n, err := io.ReadFull(resp.Body, make([]byte, size))
	st.got += n
	if err != nil {
		s.t.Fatalf("stream: %v", err)
	}
	return st
}

// finish reads the rest and checks that not a byte is missing.
func (st *stream) finish() {
	st.t.Helper()
	n, err := io.Copy(io.Discard, st.resp.Body)
	st.got += int(n)
	if err != nil || st.got != st.want {
		st.t.Errorf("the stream ended after %d of %d bytes: %v", st.got, st.want, err)
	}
}

func TestFilterKilledDuringAResponseHarmsNobody(t *testing.T) {
	s := newStack(t, stackConfig{})
	for name, client := range map[string]*http.Client{"http1": http1(), "http2": http2()} {
		var streams []*stream
		for i := range 8 {
			streams = append(streams, s.startStream(client, fmt.Sprintf("%s-%d", name, i), 40, 50*time.Millisecond))
		}
		s.replica.kill()
		for _, st := range streams {
			st.finish()
		}
		s.startReplica()
	}
}

func TestFilterKilledBeforeThePickIsAnError(t *testing.T) {
	// Two models: the pick waits for the body, which never ends.
	s := newStack(t, stackConfig{models: []string{"a", "b"}})
	for name, client := range map[string]*http.Client{"http1": http1(), "http2": http2()} {
		body, more := io.Pipe()
		type result struct {
			reply
			err error
		}
		results := make(chan result, 1)
		go func() {
			r, err := send(client, http.MethodPost, s.gateway, "/v1/completions", body, nil)
			results <- result{r, err}
		}()
		io.WriteString(more, `{"model":`)
		eventually(t, 5*time.Second, "the request waits in the filter", func() bool { return s.metric("mooring_streams") > 0 })
		s.replica.kill()
		r := <-results
		more.Close()
		if r.err != nil || r.status != http.StatusServiceUnavailable {
			t.Errorf("%s: %v, status %d: %s; want Envoy's 503", name, r.err, r.status, r.body)
		}
		if r.header.Get("X-Sim-Worker") != "" {
			t.Errorf("%s: worker %s was reached without a pick", name, r.header.Get("X-Sim-Worker"))
		}
		// And while it is down.
		if r, err := post(client, s.gateway, "/v1/completions", []byte(`{"model":"a"}`), nil); err != nil || r.status != http.StatusServiceUnavailable {
			t.Errorf("%s, filter down: %v, status %d; want 503", name, err, r.status)
		}
		s.startReplica()
		eventually(t, 10*time.Second, "service again after the restart", func() bool {
			r, err := post(client, s.gateway, "/v1/completions", []byte(`{"model":"a","prompt":"x","max_tokens":1}`), nil)
			return err == nil && r.status == http.StatusOK
		})
	}
}

func TestSIGTERMCutsNothing(t *testing.T) {
	s := newStack(t, stackConfig{yaml: "shutdown: {drain: 20s}"})
	client := http1()
	var streams []*stream
	for i := range 8 {
		streams = append(streams, s.startStream(client, fmt.Sprintf("term-%d", i), 40, 50*time.Millisecond))
	}
	s.replica.signal(syscall.SIGTERM)
	s.replica.waitLog("draining")
	// Readiness has dropped, but who still asks is still answered.
	r, err := post(client, s.gateway, "/v1/completions", []byte(`{"model":"sim","prompt":"x","max_tokens":1}`), nil)
	if err != nil || r.status != http.StatusOK {
		t.Errorf("a request while draining: %v, status %d: %s", err, r.status, r.body)
	}
	for _, st := range streams {
		st.finish()
	}
	if code := s.replica.waitExit(20 * time.Second); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
