package envoy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	processorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"

	"mooring/envoy"
)

// failOpen lets requests pass without an answer: never what is generated.
func failOpen(b *bootstrapv3.Bootstrap) { failClosedIf(false)(b) }

func failClosedIf(closed bool) func(*bootstrapv3.Bootstrap) {
	return func(b *bootstrapv3.Bootstrap) {
		tellDetails(b)
		editProcessor(b, func(p *processorv3.ExternalProcessor) { p.FailureModeAllow = !closed })
	}
}

// do sends a request in the background.
func (r *rig) do(req *http.Request) <-chan *http.Response {
	got := make(chan *http.Response, 1)
	go func() {
		resp, err := r.client.Do(req)
		if err != nil {
			r.t.Error(err)
		}
		got <- resp
	}()
	return got
}

func (r *rig) sent(stat string, n uint64) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%s reaches %d", stat, n), func() bool {
		return r.stats(`ext_proc\.mooring\.` + stat)["http.in.ext_proc.mooring."+stat] >= n
	})
}

// allowed is how often Envoy went on without Mooring.
func (r *rig) allowed() uint64 {
	const stat = "http.in.ext_proc.mooring.failure_mode_allowed"
	return r.stats(`ext_proc\.mooring\.failure_mode_allowed`)[stat]
}

// Even where failures are allowed, a request that Mooring did not pin goes
// nowhere: the workers' cluster yields no host without an address. In full
// duplex the setting does nothing once a piece of a body went to Mooring.
func TestKillBeforeThePickWhereFailuresAreAllowed(t *testing.T) {
	for _, mode := range []envoy.BodyMode{envoy.FullDuplex, envoy.HeadersOnly, envoy.Buffered} {
		for _, body := range []string{"{}", ""} {
			r, child := startEditedRigWithChild(t, func(c *envoy.Config) { c.BodyMode = mode }, failOpen)
			got := r.do(r.request(t.Context(), "/", strings.NewReader(body), "x-test", "hang"))
			r.sent("stream_msgs_sent", 1)
			kill(child)
			resp := receive(t, got, "the answer")
			resp.Body.Close()
			open := mode != envoy.FullDuplex || body == ""
			details := resp.Header.Get("x-details")
			if resp.StatusCode != http.StatusServiceUnavailable || open != (details == "no_healthy_upstream") || open != (r.allowed() == 1) {
				t.Errorf("mode %d, body %q: got %d, details %q, %d allowed; want 503, by the workers' cluster: %v", mode, body, resp.StatusCode, details, r.allowed(), open)
			}
			if a := r.send("/", strings.NewReader(body)); a.status != http.StatusServiceUnavailable {
				t.Errorf("mode %d, body %q, Mooring down: got %d from %q", mode, body, a.status, a.seen.Worker)
			}
		}
	}
}

// A body that passes through Mooring, or that Envoy will show it, needs it to
// its end. Where Mooring wants no body the upload does not notice.
func TestKillDuringTheUpload(t *testing.T) {
	for _, allow := range []bool{false, true} {
		for _, mode := range []envoy.BodyMode{envoy.FullDuplex, envoy.HeadersOnly, envoy.Buffered} {
			want := http.StatusServiceUnavailable
			if mode == envoy.HeadersOnly || mode == envoy.Buffered && allow {
				want = http.StatusOK // it was pinned at the headers
			}
			r, child := startEditedRigWithChild(t, func(c *envoy.Config) { c.BodyMode = mode }, failClosedIf(!allow))
			body, more := io.Pipe()
			got := r.do(r.request(t.Context(), "/", body, "x-test-pick", r.workers[0].address))
			io.WriteString(more, "first")
			if mode == envoy.FullDuplex {
				r.sent("stream_msgs_received", 2)
			} else {
				r.sent("stream_msgs_received", 1)
			}
			kill(child)
			go func() { io.WriteString(more, "second"); more.Close() }()
			resp := receive(t, got, "the answer")
			resp.Body.Close()
			more.CloseWithError(io.EOF) // the transport may have stopped reading it
			if resp.StatusCode != want {
				t.Errorf("mode %d, allowed %v: got %d %s, want %d", mode, allow, resp.StatusCode, resp.Header.Get("x-details"), want)
			}
		}
	}
}

// A stream that is held for the response's sake ties the response to Mooring's
// life, which is why the generated configuration ends it before.
func TestKillWhileTheStreamIsHeldForTheResponse(t *testing.T) {
	for _, allow := range []bool{false, true} {
		for _, mode := range []envoy.BodyMode{envoy.FullDuplex, envoy.HeadersOnly} {
			r, child := startEditedRigWithChild(t, func(c *envoy.Config) { c.BodyMode, c.End = mode, envoy.Stream }, failClosedIf(!allow))
			resp := r.open(t.Context(), strings.NewReader("{}"), r.workers[0])
			r.workers[0].say(t, "a")
			if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			kill(child)
			survives := allow && mode == envoy.HeadersOnly
			if survives {
				r.sent("failure_mode_allowed", 1)
				r.workers[0].say(t, "b")
				close(r.workers[0].chunk)
			}
			if text, err := io.ReadAll(resp.Body); (err == nil) != survives || survives && string(text) != "b" {
				t.Errorf("mode %d, allowed %v: got %q, %v", mode, allow, text, err)
			}
		}
	}
}
