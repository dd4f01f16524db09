package envoy_test

import (
	"net/http"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	processorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"mooring/envoy"
)

// The generated route never tries again. Where somebody's does, an attempt goes
// to the next address of the list, and after the last one to nobody.
func TestAttemptsGoDownTheList(t *testing.T) {
	r := startEditedRig(t, func(c *envoy.Config) { c.End = envoy.Stream }, func(b *bootstrapv3.Bootstrap) {
		editRoute(b, func(_ *routev3.VirtualHost, route *routev3.RouteAction) {
			route.RetryPolicy = &routev3.RetryPolicy{
				RetryOn: "connect-failure,reset", NumRetries: wrapperspb.UInt32(2),
				RetryBackOff: &routev3.RetryPolicy_RetryBackOff{BaseInterval: durationpb.New(time.Millisecond)},
			}
		})
		editProcessor(b, func(p *processorv3.ExternalProcessor) {
			p.ResponseAttributes = []string{"upstream.request_attempt_count", "response.code_details"}
		})
	})
	attempts := make(chan float64, 1)
	r.play(func(s *session) error {
		for {
			m, err := s.stream.Recv()
			if err != nil {
				return nil
			}
			if m.GetResponseHeaders() != nil {
				attempts <- m.GetAttributes()[FilterAttributes].GetFields()["upstream.request_attempt_count"].GetNumberValue()
			}
			if _, err := s.answer(m); err != nil {
				return err
			}
		}
	})
	dead, one, two := "127.0.0.1:1", r.workers[0].address, r.workers[1].address // nobody listens on tcpmux
	all := append(r.workers[:len(r.workers):len(r.workers)], &worker{name: "dead", address: dead})
	if err := envoy.WriteEndpoints(r.cfg.EndpointsFile, r.view(all...)); err != nil {
		t.Fatal(err)
	}
	r.waitForHosts(4)
	tests := []struct {
		name, path, list string
		status           int
		worker           string
		attempts         float64
	}{
		{"one address", "/flaky", one, http.StatusServiceUnavailable, "", 2},
		{"the address twice", "/flaky", one + "," + one, http.StatusOK, "one", 2},
		{"connect failure, then the next", "/", dead + "," + two, http.StatusOK, "two", 2},
		{"connect failure twice", "/", dead + "," + dead, http.StatusServiceUnavailable, "", 3},
		{"all attempts used", "/", dead + "," + dead + "," + dead + "," + one, http.StatusServiceUnavailable, "", 3},
	}
	for _, tt := range tests {
		r.workers[0].tries.Store(0)
		a := r.send(tt.path, nil, "x-test-pick", tt.list)
		n := receive(t, attempts, "response headers")
		if a.status != tt.status || a.seen.Worker != tt.worker || n != tt.attempts {
			t.Errorf("%s: got %d from %q at attempt %v; want %d from %q at %v", tt.name, a.status, a.seen.Worker, n, tt.status, tt.worker, tt.attempts)
		}
	}
}
