package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// TestKVEventFormsRouteTheSame holds a conversation on each of five workers that
// write their events in different forms.
func TestKVEventFormsRouteTheSame(t *testing.T) {
	t.Parallel()
	forms := [][]string{
		{"--kv-format", "map", "--kv-hash", "int"},
		{"--kv-format", "map", "--kv-hash", "bytes", "--kv-topic", "kv@[::1]:8000@org/sim@v2"},
		{"--kv-format", "array", "--kv-hash", "bytes", "--kv-salt", "bare"},
		{"--kv-format", "array", "--kv-hash", "signed"},
		{"--kv-format", "array-short", "--kv-hash", "int"},
	}
	s := newKVStack(t, stackConfig{models: []string{"sim", "sim", "sim", "sim", "sim"}, workerFlags: kvSockets(), flagsOfEach: forms})
	for i, w := range s.workers {
		s.seed(w.address, fmt.Sprint("Form ", i))
	}
	s.inStep(s.workers...)
	for i, w := range s.workers {
		topic := fmt.Sprint("Form ", i)
		s.wantTrials(t, 20, w, func(n int) reply { return s.ask(fmt.Sprint(topic, n), topic, fmt.Sprint("Question ", n)) })
	}
	s.inStep(s.workers...)
	s.checkSalt(s.workers[0])
	s.checkSalt(s.workers[2])
}

// checkSalt has a tenant's prompt cached by a worker: it counts for that tenant,
// and for nobody else.
func (s *stack) checkSalt(w *simWorker) {
	s.t.Helper()
	salted := func(tenant string) []byte {
		var body map[string]any
		if err := json.Unmarshal(chatBody("Secrets of "+w.address, "What is it?"), &body); err != nil {
			s.t.Fatal(err)
		}
		if tenant != "" {
			body["cache_salt"] = tenant
		}
		out, _ := json.Marshal(body)
		return out
	}
	w.tell("/v1/chat/completions", string(salted("tenant-a")))
	eventually(s.t, 10*time.Second, "the tenant's blocks are known", func() bool {
		return s.explainBody("any", salted("tenant-a")).at(s.t, w).Device > 20
	})
	for _, other := range []string{"", "tenant-b", "TENANT-A"} {
		if c := s.explainBody("any", salted(other)).at(s.t, w); c.Device != 0 {
			s.t.Errorf("%d blocks of tenant-a count for %q", c.Device, other)
		}
	}
}
