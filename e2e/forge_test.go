package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
)

// TestAClientCannotChooseItsWorker sends every header that means something to
// Mooring or to Envoy's load balancer, aimed at another worker and at a server
// that is none of ours.
func TestAClientCannotChooseItsWorker(t *testing.T) {
	s := newStack(t, stackConfig{yaml: "session: {expose: true}"})
	stranger := s.startWorker("sim") // in nobody's configuration
	client := http1()
	c := &conversation{id: "victim", model: "sim"}
	if r, err := c.turn(client, s.gateway, "hello"); err != nil || r.status != http.StatusOK {
		t.Fatalf("%v, status %d: %s", err, r.status, r.body)
	}
	home := c.workers[0]
	aims := []string{stranger.address, "10.0.0.99:8000"}
	var otherID string
	for _, w := range s.adminWorkers() {
		if w.Address != home {
			aims = append(aims, w.Address)
			otherID = w.ID
		}
	}
	names := []string{
		"x-gateway-destination-endpoint", "x-gateway-destination-endpoint-served", "x-gateway-destination-endpoint-subset",
		"x-dynamo-worker-instance-id", "x-worker-instance-id", "x-dynamo-dp-rank", "x-dp-rank", "x-data-parallel-rank",
		"x-dynamo-prefill-instance-id", "x-prefill-instance-id", "x-dynamo-prefill-dp-rank", "x-prefill-dp-rank",
		"x-mooring-worker", "x-mooring-reason", "x-envoy-original-dst-host",
	}
	for _, name := range names {
		for _, value := range append(aims, otherID, "1") {
			r, err := post(client, s.gateway, "/v1/completions", []byte(`{"model":"sim","prompt":"hi","max_tokens":1}`),
				map[string]string{"X-Session-Id": "victim", name: value})
			if err != nil || r.status != http.StatusOK {
				t.Errorf("%s: %s: %v, status %d: %s", name, value, err, r.status, r.body)
				continue
			}
			if got := r.header.Get("X-Sim-Worker"); got != home {
				t.Errorf("%s: %s reached %s, want %s", name, value, got, home)
			}
			if got := r.header.Get("X-Mooring-Reason"); got != "bound" {
				t.Errorf("%s: %s: x-mooring-reason is %q, want bound", name, value, got)
			}
		}
	}
	s.checkForgedHeadersDidNotArrive(home, names, otherID)
}

// checkForgedHeadersDidNotArrive asks the worker which headers it saw: of all
// the names only those that Mooring sets, with Mooring's values.
func (s *stack) checkForgedHeadersDidNotArrive(home string, names []string, otherID string) {
	s.t.Helper()
	r, err := send(http1(), http.MethodGet, home, "/debug/requests?session=victim", nil, nil)
	if err != nil || r.status != http.StatusOK {
		s.t.Fatalf("%v, status %d: %s", err, r.status, r.body)
	}
	var seen struct {
		Requests []struct{ Headers map[string][]string }
	}
	if err := json.Unmarshal(r.body, &seen); err != nil || len(seen.Requests) < len(names) {
		s.t.Fatalf("the worker saw %d requests: %v in %s", len(seen.Requests), err, r.body)
	}
	mine := ""
	for _, w := range s.adminWorkers() {
		if w.Address == home {
			mine = w.ID
		}
	}
	want := map[string]string{"x-dynamo-worker-instance-id": mine, "x-dynamo-dp-rank": "0"}
	for _, request := range seen.Requests {
		header := make(http.Header)
		for name, values := range request.Headers {
			for _, v := range values {
				header.Add(name, v)
			}
		}
		for _, name := range names {
			if name == "x-envoy-original-dst-host" {
				continue // not ours: no cluster of ours reads it
			}
			switch got := header.Values(name); {
			case want[name] == "" && len(got) > 0:
				s.t.Errorf("the worker saw %s: %v", name, got)
			case want[name] != "" && (len(got) != 1 || got[0] != want[name]):
				s.t.Errorf("the worker saw %s: %v, want %s", name, got, want[name])
			}
		}
	}
}
