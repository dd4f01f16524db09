package e2e

import (
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// retrying gives a bootstrap a second attempt at any other worker, as gateways
// have that somebody else configured.
func retrying(t *testing.T, bootstrap []byte) []byte {
	t.Helper()
	var whole map[string]any
	if err := yaml.Unmarshal(bootstrap, &whole); err != nil {
		t.Fatal(err)
	}
	changed := 0
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if v["cluster"] == "mooring_workers" {
				v["retry_policy"] = map[string]any{"retry_on": "connect-failure", "num_retries": 3}
				changed++
			}
			if _, ok := v["fallback_policy"].(map[string]any); ok && v["override_host_sources"] != nil {
				v["fallback_policy"] = parseYAML(t, `{policies: [{typed_extension_config: {name: envoy.load_balancing_policies.round_robin, typed_config: {"@type": type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin}}}]}`)
				changed++
			}
			for _, next := range v {
				walk(next)
			}
		case []any:
			for _, next := range v {
				walk(next)
			}
		}
	}
	walk(whole)
	if changed != 2 {
		t.Fatalf("%d places of the bootstrap were changed, want the route and the policy:\n%s", changed, bootstrap)
	}
	out, err := yaml.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheBindingFollowsWhoServed kills a worker behind Mooring's back, while
// Envoy tries another one: a soft session is then bound to the one that served, a
// hard one stays.
func TestTheBindingFollowsWhoServed(t *testing.T) {
	for mode, moves := range map[string]float64{"soft": 1, "hard": 0} {
		t.Run(mode, func(t *testing.T) {
			s := newStack(t, stackConfig{yaml: "session: {expose: true, mode: " + mode + "}", editBootstrap: retrying})
			s.reconfigure("interval: 200ms", "interval: 30s", "unhealthy_after: 2", "unhealthy_after: 10")
			c := &conversation{id: "moored", model: "sim"}
			mustTurn(t, s, c)
			mustTurn(t, s, c)
			home := s.indexOf(c.workers[1])
			s.workers[home].kill()
			mustTurn(t, s, c)
			eventually(t, 10*time.Second, "its end is reported", func() bool { return s.metric("mooring_awaited_ends") == 0 })
			if c.workers[0] != c.workers[1] || c.workers[2] == c.workers[1] {
				t.Fatalf("turns went to %v, want the third elsewhere", c.workers)
			}
			s.restartWorker(home)
			mustTurn(t, s, c)
			want := c.workers[0]
			if mode == "soft" {
				want = c.workers[2]
			}
			if c.workers[3] != want {
				t.Errorf("turns went to %v, want the last to %s", c.workers, want)
			}
			if n := s.moves("soft"); n != moves {
				t.Errorf("%v moves, want %v", n, moves)
			}
			if n := s.metric("mooring_served_mismatch_total"); n != 1 {
				t.Errorf("%v requests were served elsewhere, want 1", n)
			}
		})
	}
}
