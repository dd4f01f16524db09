package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// way is one way in which requests and their ends reach the filter.
type way struct{ body, end string }

func (w way) String() string { return w.body + ", " + w.end }

// ways lists all of them.
func ways() (all []way) {
	for _, body := range []string{"full_duplex", "none", "buffered"} {
		all = append(all, way{body, "access_log"}, way{body, "stream"})
	}
	return all
}

// stackOf starts a stack with two models, one worker each.
func (w way) stack(t *testing.T) *stack {
	return newStack(t, stackConfig{
		models: []string{"a", "b"}, envoyYAML: "body_mode: " + w.body,
		yaml: "request: {end: " + w.end + ", deadline: 5s, model: {header: x-model}}",
	})
}

// call is a request under way.
type call struct {
	more *io.PipeWriter
	done chan callResult
}

// callResult is what the client saw: a status and whether the response came
// whole, or an error instead of a response.
type callResult struct {
	status int
	body   string
	err    error
}

func (r callResult) String() string {
	switch {
	case r.status == 0:
		return "no response"
	case r.err != nil:
		return fmt.Sprintf("%d, cut", r.status)
	default:
		return fmt.Sprint(r.status)
	}
}

// upload begins a request with the first part of a body; header x-model names
// the model if it is not empty.
func (s *stack) upload(client *http.Client, model, first string) *call {
	s.t.Helper()
	body, more := io.Pipe()
	c := &call{more: more, done: make(chan callResult, 1)}
	header := map[string]string{"X-Session-Id": "up"}
	if model != "" {
		header["X-Model"] = model
	}
	go func() {
		r, err := send(client, http.MethodPost, s.gateway, "/v1/completions", body, header)
		c.done <- callResult{r.status, string(r.body), err}
		body.CloseWithError(io.ErrClosedPipe) // whoever still writes must not wait
	}()
	io.WriteString(more, first)
	return c
}

// finish sends the rest of the body and returns what the client saw.
func (c *call) finish(t *testing.T, rest string) callResult {
	t.Helper()
	go func() {
		io.WriteString(c.more, rest)
		c.more.Close()
	}()
	return c.result(t)
}

func (c *call) result(t *testing.T) callResult {
	t.Helper()
	select {
	case r := <-c.done:
		return r
	case <-time.After(time.Minute):
		t.Fatal("no answer within a minute")
		panic("not reached")
	}
}

const (
	promptHead = `{"model":"a","prompt":"hello","max`
	promptTail = `_tokens":2}`
)

// phase is one point of a request at which something happens to the filter.
// begin brings a request there, end lets it go on and tells what its client saw.
type phase struct {
	name  string
	begin func(s *stack) (end func() string)
}

func phases() []phase {
	return []phase{
		{"before the pick", func(s *stack) func() string {
			c := s.upload(http1(), "", promptHead)
			eventually(s.t, 10*time.Second, "the request waits in the filter", func() bool { return s.metric("mooring_streams") > 0 })
			return func() string { return c.finish(s.t, promptTail).String() }
		}},
		{"picked, during the upload", func(s *stack) func() string {
			picked := s.metric("mooring_requests_total")
			c := s.upload(http1(), "a", promptHead)
			eventually(s.t, 10*time.Second, "the request is picked", func() bool { return s.metric("mooring_requests_total") > picked })
			return func() string { return c.finish(s.t, promptTail).String() }
		}},
		{"during the response", func(s *stack) func() string {
			st := s.openStream(http1())
			return func() string { return st.outcome() }
		}},
	}
}

// openStream starts a response of 30 pieces in 1.5 s and reads its first.
func (s *stack) openStream(client *http.Client) *stream {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+s.gateway+"/debug/stream?n=30&bytes=64&every=50ms", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-Session-Id", "down")
	req.Header.Set("X-Model", "a")
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	n, err := io.ReadFull(resp.Body, make([]byte, 64))
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("stream: status %d, %v", resp.StatusCode, err)
	}
	return &stream{t: s.t, resp: resp, want: 30 * 64, got: n}
}

func (st *stream) outcome() string {
	n, err := io.Copy(io.Discard, st.resp.Body)
	st.got += int(n)
	return callResult{status: st.resp.StatusCode, err: errIf(err != nil || st.got != st.want)}.String()
}

func errIf(failed bool) error {
	if failed {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// TestFilterKilledInEachPhase is the table of docs/envoy-behaviour.md for a
// filter that is killed: what the client of a request in that phase sees, and
// that the next request is served once the filter is back.
func TestFilterKilledInEachPhase(t *testing.T) {
	t.Parallel()
	want := map[way][3]string{ // by phase
		{"full_duplex", "access_log"}: {"503", "503", "200"},
		{"full_duplex", "stream"}:     {"503", "503", "200, cut"},
		{"none", "access_log"}:        {"503", "200", "200"},
		{"none", "stream"}:            {"503", "503", "200, cut"},
		{"buffered", "access_log"}:    {"503", "503", "200"},
		{"buffered", "stream"}:        {"503", "503", "200, cut"},
	}
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel() // mostly waiting
			s := w.stack(t)
			for i, p := range phases() {
				end := p.begin(s)
				s.replica.kill()
				if got := end(); got != want[w][i] {
					t.Errorf("killed %s: the client sees %q, want %q", p.name, got, want[w][i])
				}
				s.startReplica()
				s.servedAgain()
			}
		})
	}
}

func (s *stack) servedAgain() {
	s.t.Helper()
	eventually(s.t, 10*time.Second, "service after a restart", func() bool {
		r, err := post(http1(), s.gateway, "/v1/completions", []byte(promptHead+promptTail), nil)
		return err == nil && r.status == http.StatusOK
	})
}

// TestFilterStoppedInEachPhase stops the filter for a second (SIGSTOP): no
// request is lost, those that need it wait.
func TestFilterStoppedInEachPhase(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel() // mostly waiting
			s := w.stack(t)
			for _, p := range phases() {
				end := p.begin(s)
				s.replica.signal(syscall.SIGSTOP)
				timer := time.AfterFunc(time.Second, func() { s.replica.cmd.Process.Signal(syscall.SIGCONT) })
				if got := end(); got != "200" {
					t.Errorf("stopped %s: the client sees %q, want 200", p.name, got)
				}
				if timer.Stop() { // the request did not need the filter
					s.replica.signal(syscall.SIGCONT)
				}
				s.servedAgain()
			}
			eventually(t, 10*time.Second, "no lease left", func() bool { return s.metric("mooring_leases") == 0 })
		})
	}
}

// TestFilterStoppedForLong stops the filter until Envoy has lost its patience:
// what that patience is depends on the body mode. Never another worker, and
// responses under way do not notice where the access log tells of their end.
// Pings that are not answered cost Envoy the connection and the entries on it:
// their leases end by the connection's loss.
func TestFilterStoppedForLong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		body   string
		status string
		least  time.Duration
		most   time.Duration
	}{
		{"none", "504", 5 * time.Second, 15 * time.Second},        // deadline and a second
		{"buffered", "504", 5 * time.Second, 15 * time.Second},    // the same
		{"full_duplex", "503", 4 * time.Second, 60 * time.Second}, // pings: every 15 s, 5 s to answer
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			t.Parallel() // mostly waiting
			s := way{tt.body, "access_log"}.stack(t)
			s.servedAgain()
			st := s.openStream(http1())
			s.replica.signal(syscall.SIGSTOP)
			began := time.Now()
			r, err := post(http1(), s.gateway, "/v1/completions", []byte(promptHead+promptTail), nil)
			took := time.Since(began)
			t.Logf("status %d after %v", r.status, took)
			if err != nil || fmt.Sprint(r.status) != tt.status || took < tt.least || took > tt.most {
				t.Errorf("%v, status %d after %v: %s; want %s after %v to %v", err, r.status, took, r.body, tt.status, tt.least, tt.most)
			}
			if !strings.Contains(string(r.body), `"error"`) || r.header.Get("X-Sim-Worker") != "" {
				t.Errorf("the refusal is %s, from worker %q", r.body, r.header.Get("X-Sim-Worker"))
			}
			if got := st.outcome(); got != "200" {
				t.Errorf("the response under way: %s", got)
			}
			s.replica.signal(syscall.SIGCONT)
			s.servedAgain()
			eventually(t, 30*time.Second, "no lease left", func() bool { return s.metric("mooring_leases") == 0 })
		})
	}
}
