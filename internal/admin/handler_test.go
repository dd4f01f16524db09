package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mooring/affinity"
)

func (r *replica) pin(model, group, session, target string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPut, "http://127.0.0.1/v1/sessions/"+model+"/"+group+"/"+session, strings.NewReader(`{"target":"`+target+`"}`))
	request.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, request)
	return w
}

func (r *replica) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
	return w
}

func TestPinIntoAFullTableIsRefused(t *testing.T) {
	r := newReplica(t, smallFleet(), affinity.Config{MaxSessions: 1})
	if w := r.pin("qwen", "batch", "first", "9"); w.Code != http.StatusOK {
		t.Fatalf("first pin: %d %s", w.Code, w.Body)
	}
	if w := r.pin("qwen", "batch", "second", "9"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"table_full"`) {
		t.Errorf("second pin: %d %s; want 503 table_full", w.Code, w.Body)
	}
}

func TestMetricsShowWhatWasRefused(t *testing.T) {
	r := newReplica(t, smallFleet(), affinity.Config{})
	r.pin("qwen", "batch", "s", "9")
	r.pin("qwen", "batch", "s", "1")
	r.get("/nowhere")
	w := r.get("/metrics")
	if kind := w.Header().Get("Content-Type"); w.Code != http.StatusOK || !strings.HasPrefix(kind, "text/plain") {
		t.Fatalf("%d %s", w.Code, kind)
	}
	for _, line := range []string{
		"mooring_bindings 1", `mooring_admin_refused_total{type="unknown_target"} 1`, `mooring_admin_refused_total{type="not_found"} 1`,
	} {
		if !strings.Contains(w.Body.String(), "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, w.Body)
		}
	}
}

func TestEveryAnswerForbidsWhatBrowsersWouldDoWithIt(t *testing.T) {
	r := newReplica(t, smallFleet(), affinity.Config{})
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/v1/workers", "/v1/sessions", "/nowhere"} {
		h := r.get(path).Header()
		if h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: %v", path, h)
		}
		if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s may be read by other sites", path)
		}
	}
}

// TestPagesStayStableWhileSessionsComeAndGo: a session that is there all the
// time is listed once, whatever happens to others between two pages.
func TestPagesStayStableWhileSessionsComeAndGo(t *testing.T) {
	r := newReplica(t, smallFleet(), affinity.Config{})
	for i := range 100 {
		r.pin("qwen", "batch", fmt.Sprintf("stays-%02d", i), "9")
		r.pin("qwen", "batch", fmt.Sprintf("goes-%02d", i), "9")
	}
	seen := make(map[string]int)
	for after, n := "", 0; ; n++ {
		page := decode[sessionPage](t, r.get("/v1/sessions?limit=7&after="+after))
		for _, s := range page.Sessions {
			seen[s.Session]++
		}
		if after = page.Next; after == "" {
			break
		}
		table, _ := r.sessions.Table(qwenBatch)
		table.Unpin(fmt.Sprintf("goes-%02d", n))
		r.pin("qwen", "batch", fmt.Sprintf("comes-%02d", n), "9")
	}
	for i := range 100 {
		if id := fmt.Sprintf("stays-%02d", i); seen[id] != 1 {
			t.Errorf("%s is listed %d times", id, seen[id])
		}
	}
}

func TestLogsNameNoSession(t *testing.T) {
	const secret = "secret-session-id"
	r := newReplica(t, smallFleet(), affinity.Config{})
	r.pin("qwen", "batch", secret, "9")
	r.pin("qwen", "batch", secret, "nobody")
	r.get("/v1/sessions/qwen/batch/" + secret)
	r.get("/v1/sessions/nothing/here/" + secret)
	r.get("/v1/sessions/" + secret)
	r.get("/v1/sessions?after=" + secret)
	log := r.log.String()
	if strings.Contains(log, secret) {
		t.Errorf("the log names the session:\n%s", log)
	}
	if !strings.Contains(log, affinity.HashSession(secret)) || !strings.Contains(log, "admin_refused") {
		t.Errorf("the log lacks the pin's hash or the refusals:\n%s", log)
	}
}
