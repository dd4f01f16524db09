package admin_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/affinity"
	"mooring/internal/admin"
	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/blockhash"
	"mooring/kvstate/index"
	"mooring/routing"
)

// explainer serves a fleet of two workers of model m, of which the second holds
// two blocks of four tokens, 1 to 8, and one of model n.
func explainer(t *testing.T) (http.Handler, *routing.Router) {
	t.Helper()
	member := func(id fleet.WorkerID, model string) fleet.Worker {
		return fleet.Worker{ID: id, Address: "10.0.0." + id.String() + ":80", Models: []string{model}, Group: fleet.DefaultName, Ranks: 1, State: fleet.Active}
	}
	live := fleet.NewLive(fleet.NewView([]fleet.Worker{member(1, "m"), member(2, "m"), member(3, "n")}))
	sessions, err := affinity.NewResolver(live, affinity.Config{WriterID: 1})
	if err != nil {
		t.Fatal(err)
	}
	cfg := routing.Config{
		SessionHeaders: []string{"x-session-id"}, Index: index.NewSet(index.Config{}), Controller: kvstate.NewController(), Weights: routing.DefaultWeights(),
		Figures: func(t fleet.Target) (routing.Figures, bool) {
			return routing.Figures{Running: 2, Waiting: 1, KVUse: 0.5, At: time.Now().Add(-time.Second)}, t.Worker == 1
		},
	}
	ix := cfg.Index.Open(fleet.Partition{Model: "m", Group: fleet.DefaultName})
	ix.SetBlockSize(4)
	w := kvstate.Worker{WorkerID: 2}
	local := blockhash.Append(nil, []uint32{1, 2, 3, 4, 5, 6, 7, 8}, 4, blockhash.Seed("", ""))
	ix.Store(index.Owner{Key: kvstate.WorkerKey(w)}, kvstate.Device, 0, false, []kvstate.Block{{External: 1, Local: local[0]}, {External: 2, Local: local[1]}})
	cfg.Controller.Update(kvstate.Resolution{State: kvstate.Ready, Worker: w})
	router := routing.NewRouter(live, sessions, cfg)
	return admin.Handler(admin.Config{
		Fleet: live, Sessions: sessions, Router: router, Ready: func() admin.Readiness { return admin.Readiness{Ready: true} }, Gatherer: prometheus.NewRegistry(),
		KV: func(w kvstate.Worker) admin.KV {
			if w.WorkerID == 2 {
				return admin.KV{State: "ready", Blocks: 2}
			}
			return admin.KV{State: "unknown", Reason: "status_mismatch"}
		},
	}), router
}

func explain(t *testing.T, h http.Handler, body string) explanation {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/explain", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", body, w.Code, w.Body)
	}
	return decode[explanation](t, w)
}

// explanation is what a client needs of the answer.
type explanation struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
	Why      string `json:"why"`
	Worker   string `json:"worker_id"`
	Address  string `json:"address"`
	Session  string `json:"session"`
	Model    string `json:"model"`
	Prompt   struct {
		Source  string `json:"source"`
		Problem string `json:"problem"`
		Tokens  int    `json:"tokens"`
		Blocks  int    `json:"blocks"`
	} `json:"prompt"`
	Candidates []struct {
		Worker  string   `json:"worker_id"`
		Wins    bool     `json:"wins"`
		Device  int      `json:"device_blocks"`
		KV      admin.KV `json:"kv"`
		Credit  float64  `json:"credit"`
		Active  float64  `json:"active_requests"`
		Cost    *float64 `json:"cost"`
		Figures *struct {
			Running int     `json:"running"`
			AgeMS   int     `json:"age_ms"`
			Fresh   float64 `json:"freshness"`
		} `json:"figures"`
	} `json:"candidates"`
}

func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, router := explainer(t)
		for range 3 { // the same each time: nothing is bound or counted
			e := explain(t, h, `{"headers":{"X-Session-ID":"s"},"body":{"model":"m","prompt":[1,2,3,4,5,6,7,8,9]}}`)
			if e.Decision != "route" || e.Reason != "new" || e.Worker != "2" || e.Address != "10.0.0.2:80" || e.Session != "s" || e.Model != "m" || e.Why == "" {
				t.Errorf("got %+v", e)
			}
			if e.Prompt.Source != "prompt" || e.Prompt.Tokens != 9 || e.Prompt.Blocks != 3 || e.Prompt.Problem != "" {
				t.Errorf("prompt %+v", e.Prompt)
			}
			if len(e.Candidates) != 2 {
				t.Fatalf("candidates %+v", e.Candidates)
			}
			// 3 to compute, 3 in use, 0.9 of 3 requests; 3 - 2 to compute, 3 in use.
			one, two := e.Candidates[0], e.Candidates[1]
			if one.Wins || one.Cost == nil || *one.Cost != 8.7 || one.Active != 2.7 || one.Figures == nil || one.Figures.AgeMS != 1000 || one.Figures.Fresh != 0.9 {
				t.Errorf("worker 1: %+v", one)
			}
			if one.KV != (admin.KV{State: "unknown", Reason: "status_mismatch"}) || two.KV != (admin.KV{State: "ready"}) {
				t.Errorf("KV state %+v and %+v", one.KV, two.KV)
			}
			if !two.Wins || two.Cost == nil || *two.Cost != 4 || two.Device != 2 || two.Credit != 2 || two.Figures != nil {
				t.Errorf("worker 2: %+v", two)
			}
		}
		if n := router.Live(fleet.OnRank(2, 0)); n != 0 {
			t.Errorf("%d requests are counted", n)
		}
	})
}

func TestExplainOfWhatIsRefused(t *testing.T) {
	h, _ := explainer(t)
	for body, reason := range map[string]string{
		`{"body":{"model":"nobody"}}`: "no_model",
		`{"text":"no JSON"}`:          "invalid",
		`{"headers":{"x-session-id":"` + strings.Repeat("s", 300) + `"}}`: "invalid",
	} {
		e := explain(t, h, body)
		if e.Decision != "refuse" || e.Reason != reason || e.Worker != "" || e.Why == "" || len(e.Candidates) != 0 {
			t.Errorf("%.40s: %+v, want it refused, %s", body, e, reason)
		}
	}
	// Without a body, or with one that says nothing, any worker would do.
	for _, body := range []string{`{}`, `{"body":null}`, `{"text":""}`, `{"body":{}}`} {
		if e := explain(t, h, body); e.Reason != "no_model" || e.Decision != "route" || len(e.Candidates) != 3 {
			t.Errorf("%s: %+v, want it routed, no_model", body, e)
		}
	}
}

func TestExplainRepeatsNoPrompt(t *testing.T) {
	h, _ := explainer(t)
	for _, body := range []string{
		`{"body":{"model":"m","prompt":"SECRET"}}`, `{"text":"SECRET"}`, `{"text":"{\"model\":\"m\",\"messages\":[{\"SECRET\":SECRET"}`, `{"body":{"SECRET":`, `{"text":SECRET}`,
	} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/explain", bytes.NewBufferString(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); strings.Contains(w.Body.String(), "SECRET") {
			t.Errorf("%s: %s", body, w.Body)
		}
	}
}
