package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// refusal is one request that cannot be routed, and what its client is told.
type refusal struct {
	name    string
	body    string
	header  map[string]string
	status  int
	message string // part of it
}

func TestARequestThatCannotBeRouted(t *testing.T) {
	tests := []refusal{
		{"not JSON", `{"model": `, nil, 400, "JSON"},
		{"a JSON array", `[]`, nil, 400, "object"},
		{"null", `null`, nil, 400, "object"},
		{"model of a wrong type", `{"model": 123}`, nil, 400, "model"},
		{"model twice", `{"model":"a","model":"b"}`, nil, 400, "model"},
		{"deep nesting", `{"x":` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + `,"model":"a"}`, nil, 400, "nest"},
		{"session id too long", `{"model":"a"}`, map[string]string{"X-Session-Id": strings.Repeat("s", 257)}, 400, "256"},
		{"session id no UTF-8", `{"model":"a"}`, map[string]string{"X-Session-Id": "\xff\xfea"}, 400, "UTF-8"},
		{"unknown model", `{"model":"nobody"}`, nil, 404, "served: a, b"},
		{"body too large", `{"model":"a","pad":"` + strings.Repeat("x", 70_000) + `"}`, nil, 413, "65536"},
		{"no worker in the group", `{"model":"a"}`, map[string]string{"X-Routing-Group": "nobody"}, 503, "worker"},
		{"worker of a wrong form", `{"model":"a"}`, map[string]string{"X-Dynamo-Worker-Instance-Id": "first"}, 400, "x-dynamo-worker-instance-id"},
		{"rank without a worker", `{"model":"a"}`, map[string]string{"X-Dynamo-Dp-Rank": "0"}, 400, "x-dynamo-dp-rank"},
		{"unknown worker", `{"model":"a"}`, map[string]string{"X-Dynamo-Worker-Instance-Id": "12345"}, 400, "worker"},
	}
	for _, mode := range []string{"full_duplex", "buffered"} {
		t.Run(mode, func(t *testing.T) {
			s := newStack(t, stackConfig{
				models:    []string{"a", "b"},
				envoyYAML: "body_mode: " + mode,
				yaml:      "request: {max_body_bytes: 64KiB, explicit_target: true}",
			})
			for _, client := range []*http.Client{http1(), http2()} {
				for _, tt := range tests {
					r, err := post(client, s.gateway, "/v1/chat/completions", []byte(tt.body), tt.header)
					if err != nil {
						t.Errorf("%s: %v", tt.name, err)
						continue
					}
					if why := tt.check(r); why != "" {
						t.Errorf("%s: %s; got status %d, %v, %s", tt.name, why, r.status, r.header, r.body)
					}
				}
			}
			s.checkNothingLive()
			for _, w := range s.adminWorkers() {
				if w.Sessions != 0 {
					t.Errorf("a refused request left a binding on %s", w.Address)
				}
			}
		})
	}
}

// check returns what is wrong with an answer, "" for nothing.
func (want refusal) check(r reply) string {
	if r.status != want.status {
		return fmt.Sprintf("want status %d", want.status)
	}
	if got := r.header.Get("Content-Type"); got != "application/json" {
		return "want content-type application/json"
	}
	var answer struct {
		Error struct{ Message, Type, Code string }
	}
	if err := json.Unmarshal(r.body, &answer); err != nil {
		return "want OpenAI's error shape"
	}
	if answer.Error.Type == "" || answer.Error.Code == "" || !strings.Contains(answer.Error.Message, want.message) {
		return fmt.Sprintf("want type, code and a message with %q", want.message)
	}
	return ""
}

func TestAnOperatorsConflictIsA409(t *testing.T) {
	s := newStack(t, stackConfig{yaml: "request: {explicit_target: true}"})
	client := http1()
	c := &conversation{id: "moored", model: "sim"}
	if r, err := c.turn(client, s.gateway, "hello"); err != nil || r.status != http.StatusOK {
		t.Fatalf("%v, status %d: %s", err, r.status, r.body)
	}
	for _, w := range s.adminWorkers() {
		r, err := post(client, s.gateway, "/v1/completions", []byte(`{"model":"sim","prompt":"x","max_tokens":1}`),
			map[string]string{"X-Session-Id": "moored", "X-Dynamo-Worker-Instance-Id": w.ID})
		want := http.StatusConflict
		if w.Address == c.workers[0] {
			want = http.StatusOK
		}
		if err != nil || r.status != want {
			t.Errorf("naming worker %s for a session on %s: %v, status %d, want %d: %s", w.Address, c.workers[0], err, r.status, want, r.body)
		}
	}
}

func TestNoWorkerAtAllIsA503(t *testing.T) {
	s := newStack(t, stackConfig{})
	for _, w := range s.workers {
		w.kill()
	}
	client := http1()
	eventually(t, 10*time.Second, "503 with a clear message", func() bool {
		r, err := post(client, s.gateway, "/v1/completions", []byte(`{"model":"sim","prompt":"x"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return refusal{status: 503, message: "no worker"}.check(r) == ""
	})
}
