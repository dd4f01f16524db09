package reconcile

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mooring/kvstate"
)

// answering makes a server and asks it once.
func answering(t *testing.T, timeout time.Duration, q question, handler http.HandlerFunc) (kvstate.QueryResponse, error) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	c := newControl()
	defer c.close()
	return c.ask(t.Context(), &call{question: q, target: testTarget(server.URL), timeout: timeout,
		request: kvstate.QueryRequest{Kind: kvstate.QueryKind{Op: kvstate.QueryStatus, Expected: kvstate.AgentIdentity{ProtocolVersion: kvstate.V2}}}})
}

func TestControlTrustsNoAnswer(t *testing.T) {
	stop := make(chan struct{})
	tests := []struct {
		name    string
		handler http.HandlerFunc
		want    string // in the error
		final   bool   // asking again would not help
	}{
		{"another status", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy\x00", http.StatusServiceUnavailable) }, `503 Service Unavailable: "busy\x00`, false},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "302 Found", false},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") }, "decode the answer", true},
		{"two answers in one", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"Error":"a","TooNew":{"newest_available":1}}`)
		}, "decode the answer", true},
		{"no end", func(w http.ResponseWriter, _ *http.Request) {
			for range maxStatusBytes/10 + 1 {
				_, _ = io.WriteString(w, "          ")
			}
		}, "larger than 65536 bytes", true},
		{"nothing", func(http.ResponseWriter, *http.Request) { <-stop }, "deadline exceeded", false},
	}
	for _, tt := range tests {
		timeout := 10 * time.Second
		if tt.name == "nothing" {
			timeout = time.Millisecond
			time.AfterFunc(50*time.Millisecond, func() { close(stop) }) // the server waits for its handler
		}
		_, err := answering(t, timeout, askStatus, tt.handler)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		var final agentError
		if errors.As(err, &final) != tt.final {
			t.Errorf("%s: %v, want one that asking again helps against: %v", tt.name, err, !tt.final)
		}
	}
}

func TestControlAsksAsTheContractSays(t *testing.T) {
	var got string
	answer, err := answering(t, 10*time.Second, askStatus, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.Header.Get("Content-Type") + " " + string(body)
		_, _ = io.WriteString(w, `{"Error":"not now"}`)
	})
	if err != nil || answer.Error == nil || *answer.Error != "not now" {
		t.Errorf("answer %+v, %v", answer, err)
	}
	want := `POST application/json {"worker_id":0,"dp_rank":0,"supports_tree_dump_failed":false,"kind":{"status":{"expected":`
	if !strings.HasPrefix(got, want) {
		t.Errorf("asked %s", got)
	}
}
