package envoy_test

import (
	"fmt"
	"net/http"
	"testing"

	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"

	"mooring/envoy"
)

// forEachWay runs a test on every attachment and body mode.
func forEachWay(t *testing.T, test func(t *testing.T, r *rig)) {
	for _, attachment := range []envoy.Attachment{envoy.OverrideHost, envoy.OriginalDst} {
		for _, mode := range []envoy.BodyMode{envoy.FullDuplex, envoy.HeadersOnly, envoy.Buffered} {
			name := fmt.Sprintf("%s/%s", map[envoy.Attachment]string{envoy.OverrideHost: "override_host", envoy.OriginalDst: "original_dst"}[attachment],
				map[envoy.BodyMode]string{envoy.FullDuplex: "full_duplex", envoy.HeadersOnly: "none", envoy.Buffered: "buffered"}[mode])
			t.Run(name, func(t *testing.T) {
				test(t, startRig(t, func(c *envoy.Config) { c.Attachment, c.BodyMode = attachment, mode }))
			})
		}
	}
}

func TestRequestsGoWhereMooringSaysOrNowhere(t *testing.T) {
	forEachWay(t, func(t *testing.T, r *rig) {
		for _, w := range r.workers {
			for _, a := range []reply{r.get("x-test-pick", w.address), r.post("x-test-pick", w.address)} {
				if a.status != http.StatusOK || a.seen.Worker != w.name {
					t.Errorf("picked %s: got %d from %q", w.name, a.status, a.seen.Worker)
				}
				r.entry()
			}
		}
		// The client's own idea of the destination, and of retries.
		forged := []string{
			"x-gateway-destination-endpoint", r.workers[0].address, "x-gateway-destination-endpoint-served", r.workers[0].address,
			"x-envoy-original-dst-host", r.workers[0].address, "x-envoy-retry-on", "5xx,reset,connect-failure", "x-envoy-max-retries", "5",
		}
		if a := r.post(append(forged, "x-test-pick", r.workers[2].address)...); a.seen.Worker != "three" {
			t.Errorf("the client forged its destination: got %d from %q", a.status, a.seen.Worker)
		}
		r.entry()
		for name, do := range map[string][]string{
			"no metadata":           {"x-test", "no-metadata"},
			"an empty address":      {"x-test-pick", ""},
			"not an address":        {"x-test-pick", "localhost"},
			"OK before the answer":  {"x-test", "return-ok"},
			"an unknown address":    {"x-test-pick", "127.0.0.1:1"},
			"error before answer":   {"x-test", "return-error"},
			"a list of no use":      {"x-test-pick", "127.0.0.1:1,127.0.0.1:2"},
			"a metadata of no host": {"x-test-pick", "0.0.0.0:0"},
		} {
			a := r.post(append(do, forged...)...)
			if a.status != http.StatusServiceUnavailable {
				t.Errorf("%s: got %d from %q, want 503", name, a.status, a.seen.Worker)
			}
			if e := r.entry(); e.GetResponse().GetResponseCode().GetValue() != 503 {
				t.Errorf("%s: its access log entry says %v", name, e.GetResponse())
			}
		}
		if spurious := r.stats(`ext_proc\.mooring\.spurious_msgs_received`); len(spurious) != 1 || spurious["http.in.ext_proc.mooring.spurious_msgs_received"] != 0 {
			t.Errorf("spurious messages: %v", spurious)
		}
	})
}

// What the access log says of requests that found no worker: Mooring tells by
// it that they were never sent.
func TestFlagsOfRequestsThatFoundNoWorker(t *testing.T) {
	dead := "127.0.0.1:1" // nobody listens on tcpmux
	tests := []struct {
		name    string
		headers []string
		flag    func(*logdatav3.ResponseFlags) bool
		details string
	}{
		{"no metadata", []string{"x-test", "no-metadata"}, (*logdatav3.ResponseFlags).GetNoHealthyUpstream, "no_healthy_upstream"},
		{"unknown", []string{"x-test-pick", "127.0.0.1:2"}, (*logdatav3.ResponseFlags).GetNoHealthyUpstream, "no_healthy_upstream"},
		{"returned OK", []string{"x-test", "return-ok"}, (*logdatav3.ResponseFlags).GetNoHealthyUpstream, "no_healthy_upstream"},
		{"dead", []string{"x-test-pick", dead}, (*logdatav3.ResponseFlags).GetUpstreamConnectionFailure,
			"upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}"},
	}
	r := startRig(t, nil)
	all := append(r.workers[:len(r.workers):len(r.workers)], &worker{name: "dead", address: dead})
	if err := envoy.WriteEndpoints(r.cfg.EndpointsFile, r.view(all...)); err != nil {
		t.Fatal(err)
	}
	r.waitForHosts(4)
	for _, tt := range tests {
		if a := r.post(tt.headers...); a.status != http.StatusServiceUnavailable {
			t.Errorf("%s: got %d", tt.name, a.status)
		}
		e := r.entry()
		if !tt.flag(e.GetCommonProperties().GetResponseFlags()) || e.GetResponse().GetResponseCodeDetails() != tt.details {
			t.Errorf("%s: flags {%v}, details %q", tt.name, e.GetCommonProperties().GetResponseFlags(), e.GetResponse().GetResponseCodeDetails())
		}
	}
}

func TestHeadersOfOursAreOverwrittenAndRemoved(t *testing.T) {
	forEachWay(t, func(t *testing.T, r *rig) {
		a := r.post("x-test", "headers", "x-test-pick", r.workers[0].address,
			"x-dynamo-worker-instance-id", "1", "x-dynamo-worker-instance-id", "2", "x-mooring-worker", "me", "x-mooring-worker", "me too",
			"x-prefill-dp-rank", "4", "x-gateway-destination-endpoint-served", "1.2.3.4:5", "x-other", "mine", "x-not-ours", "mine")
		want := map[string][]string{
			"X-Dynamo-Worker-Instance-Id": {"7"}, "X-Data-Parallel-Rank": {"3"}, // set, overwriting every value
			"X-Mooring-Worker": nil, "X-Prefill-Dp-Rank": nil, "X-Gateway-Destination-Endpoint-Served": nil, // removed
			"X-Other": {"mine"}, "X-Not-Ours": {"mine"}, // not Mooring's to touch
		}
		for name, values := range want {
			if got := a.seen.Headers.Values(name); fmt.Sprint(got) != fmt.Sprint(values) {
				t.Errorf("%s: the worker got %q, want %q", name, got, values)
			}
		}
		const rejected = "http.in.ext_proc.mooring.rejected_header_mutations"
		if n := r.stats("rejected_header_mutations")[rejected]; n != 2 {
			t.Errorf("rejected mutations: %d, want those of x-other and x-not-ours", n)
		}
	})
}

func TestImmediateResponseArrivesWhole(t *testing.T) {
	forEachWay(t, func(t *testing.T, r *rig) {
		a := r.post("x-test", "refuse")
		if a.status != http.StatusTooManyRequests || a.body != `{"error":{}}` ||
			a.header.Get("Content-Type") != "application/json" || a.header.Get("Retry-After") != "1" || a.header.Get("X-Not-Ours") != "" {
			t.Errorf("got %d %q %v", a.status, a.body, a.header)
		}
		e := r.entry()
		if got := e.GetResponse().GetResponseCodeDetails(); got != "mooring_overloaded" {
			t.Errorf("details: %q", got)
		}
		if got := e.GetCommonProperties().GetMetadata().GetFilterMetadata()["mooring"].GetFields()["reason"].GetStringValue(); got != "overloaded" {
			t.Errorf("reason in the access log: %q", got)
		}
	})
}

func TestExpose(t *testing.T) {
	for _, expose := range []bool{false, true} {
		t.Run(fmt.Sprint(expose), func(t *testing.T) {
			r := startRig(t, func(c *envoy.Config) { c.Expose = expose })
			tests := []struct {
				name           string
				got            reply
				worker, reason string
			}{
				{"answered", r.get("x-test-pick", r.workers[0].address), "7", "bound"},
				{"faked by the worker", r.send("/spoof", nil, "x-test-pick", r.workers[0].address), "7", "bound"},
				{"faked by the worker, nothing picked but the address", r.send("/spoof", nil, "x-test-pick", r.workers[0].address, "x-test", "bare"), "", ""},
				{"no such worker", r.get("x-test-pick", "127.0.0.1:1"), "7", "bound"},
				{"refused by Mooring", r.get("x-test", "refuse"), "", "overloaded"},
				{"nothing picked", r.get("x-test", "no-metadata"), "", ""},
			}
			for _, tt := range tests {
				if !expose {
					tt.worker, tt.reason = "", ""
				}
				if w, reason := tt.got.header.Get("X-Mooring-Worker"), tt.got.header.Get("X-Mooring-Reason"); w != tt.worker || reason != tt.reason {
					t.Errorf("%s: worker %q, reason %q; want %q, %q", tt.name, w, reason, tt.worker, tt.reason)
				}
			}
		})
	}
}
