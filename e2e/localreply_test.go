package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestEnvoysOwnRefusalsHaveOpenAIsShape meets the answers that Envoy gives by
// itself: clients of an OpenAI API must be able to read them too, and they may
// name no address.
func TestEnvoysOwnRefusalsHaveOpenAIsShape(t *testing.T) {
	for _, mode := range []string{"full_duplex", "buffered", "none"} {
		t.Run(mode, func(t *testing.T) {
			s := newStack(t, stackConfig{envoyYAML: "body_mode: " + mode, yaml: "request: {max_body_bytes: 64KiB}"})
			c := &conversation{id: "kept", model: "sim"}
			for _, client := range []*http.Client{http1(), http2()} {
				if r, err := c.turn(client, s.gateway, "hello"); err != nil || r.status != http.StatusOK {
					t.Fatalf("%v, status %d: %s", err, r.status, r.body)
				}
			}
			if mode == "buffered" {
				for _, client := range []*http.Client{http1(), http2()} {
					r, err := post(client, s.gateway, "/v1/completions", []byte(`{"pad":"`+strings.Repeat("x", 3<<20)+`"}`), nil)
					s.wantRefusal(refusal{name: "over Envoy's buffer", status: 413, message: "longer"}, r, err)
				}
			}
			// A worker that is gone before its probes say so.
			for _, w := range s.workers {
				if w.address == c.workers[0] {
					w.kill()
				}
			}
			r, err := post(http1(), s.gateway, "/v1/completions", []byte(`{"model":"sim","prompt":"x"}`), map[string]string{"X-Session-Id": "kept"})
			if r.status != http.StatusOK { // else the probes were faster
				s.wantRefusal(refusal{name: "worker gone", status: 503, message: "worker"}, r, err)
			}
			s.replica.kill()
			eventually(t, 5*time.Second, "the filter's absence shows", func() bool {
				r, err := post(http1(), s.gateway, "/v1/completions", []byte(`{"model":"sim","prompt":"x"}`), nil)
				return err == nil && refusal{status: 503, message: "Mooring, or the worker"}.check(r) == ""
			})
		})
	}
}

// wantRefusal checks an answer and that it names no address.
func (s *stack) wantRefusal(want refusal, r reply, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("%s: %v", want.name, err)
		return
	}
	if why := want.check(r); why != "" {
		s.t.Errorf("%s: %s; got status %d, %v, %s", want.name, why, r.status, r.header, r.body)
	}
	if strings.Contains(string(r.body), "127.0.0.1") || strings.Contains(string(r.body), s.dir) {
		s.t.Errorf("%s: the answer names an address: %s", want.name, r.body)
	}
}
