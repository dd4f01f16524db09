package envoy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	processorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"mooring/envoy"
)

// shortTimeouts makes Envoy lose its patience soon.
func shortTimeouts(b *bootstrapv3.Bootstrap) {
	tellDetails(b)
	editProcessor(b, func(p *processorv3.ExternalProcessor) { p.MessageTimeout = durationpb.New(200 * time.Millisecond) })
	editManager(b, func(m *managerv3.HttpConnectionManager) { m.RequestTimeout = durationpb.New(500 * time.Millisecond) })
}

// In full duplex there is no message timer, and request_timeout ends the wait
// for a silent Mooring only until the body is there; in the other modes the
// timer is sooner.
func TestSilentMooring(t *testing.T) {
	tests := []struct {
		name, details string
		mode          envoy.BodyMode
		body          func() io.Reader
		status        int
	}{
		{"full duplex, unfinished body", "request_overall_timeout", envoy.FullDuplex, unfinished, http.StatusRequestTimeout},
		{"full duplex, no body", "request_overall_timeout", envoy.FullDuplex, func() io.Reader { return nil }, http.StatusGatewayTimeout},
		{"none", "ext_proc_error_per-message_timeout_exceeded", envoy.HeadersOnly, finished, http.StatusGatewayTimeout},
		{"buffered", "ext_proc_error_per-message_timeout_exceeded", envoy.Buffered, finished, http.StatusGatewayTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startEditedRig(t, func(c *envoy.Config) { c.BodyMode = tt.mode }, shortTimeouts)
			a := r.send("/", tt.body(), "x-test", "hang")
			if a.status != tt.status || a.header.Get("x-details") != tt.details {
				t.Errorf("got %d, %s; want %d, %s", a.status, a.header.Get("x-details"), tt.status, tt.details)
			}
			if a.header.Get("Content-Type") != "application/json" || !strings.Contains(a.body, `"code":"timeout"`) {
				t.Errorf("the refusal is %v, %s", a.header, a.body)
			}
		})
	}
}

func finished() io.Reader { return strings.NewReader("{}") }

// unfinished is a body whose end the transport never sees.
func unfinished() io.Reader {
	body, more := io.Pipe()
	go io.WriteString(more, "{")
	return body
}

// Nothing in Envoy ends the wait once a body went to Mooring whole: the deadline
// must be Mooring's own.
func TestSilentMooringThatHasTheBodyIsWaitedFor(t *testing.T) {
	r := startEditedRig(t, nil, shortTimeouts)
	got := r.do(r.request(t.Context(), "/", finished(), "x-test", "hang"))
	select {
	case resp := <-got:
		t.Errorf("got %d, %s", resp.StatusCode, resp.Header.Get("x-details"))
	case <-time.After(1500 * time.Millisecond): // three times request_timeout
		r.letGo()
		if resp := receive(t, got, "the answer"); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("let go: got %d, %s", resp.StatusCode, resp.Header.Get("x-details"))
		}
	}
}

// The timeout of grpc_service does not apply to ext_proc's streams.
func TestTimeoutOfTheGRPCServiceIsIgnored(t *testing.T) {
	const timeout = 100 * time.Millisecond
	r := startEditedRig(t, func(c *envoy.Config) { c.End = envoy.Stream }, func(b *bootstrapv3.Bootstrap) {
		editProcessor(b, func(p *processorv3.ExternalProcessor) { p.GrpcService.Timeout = durationpb.New(timeout) })
	})
	r.play(func(s *session) error {
		for {
			m, err := s.stream.Recv()
			if err != nil {
				return nil
			}
			if m.GetRequestHeaders() != nil || m.GetResponseHeaders() != nil {
				if _, limited := s.stream.Context().Deadline(); limited {
					t.Error("the stream has a deadline")
				}
				time.Sleep(4 * timeout) // a time in which nothing must happen
			}
			if _, err := s.answer(m); err != nil {
				return err
			}
		}
	})
	if a := r.post("x-test-pick", r.workers[0].address); a.status != http.StatusOK {
		t.Errorf("got %d %s", a.status, a.body)
	}
}
