package admin_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"mooring/affinity"
	"mooring/internal/admin"
	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/reconcile"
	"mooring/routing"
)

// replica is a whole replica without its Envoy side: a real fleet view, real
// session tables and a real router behind the handler.
type replica struct {
	t        *testing.T
	live     *fleet.Live
	sessions *affinity.Resolver
	router   *routing.Router
	ready    admin.Readiness
	peers    []admin.Peer
	owners   []reconcile.OwnerReport
	kv       map[kvstate.Worker]admin.KV
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	log      bytes.Buffer
	handler  http.Handler
	routes   map[string]*routing.Route // live requests, by session
}

const (
	bigID     = fleet.WorkerID(18446744073709551557) // no float64 holds it
	llama     = "meta-llama/Llama-3"
	replicaID = 18446744073709551533
)

// smallFleet has two workers of one model, one of them with two ranks, and one
// of another model in another group that has stopped answering.
func smallFleet() []fleet.Worker {
	since := time.Date(1999, 12, 31, 23, 0, 0, 5e6, time.UTC)
	return []fleet.Worker{
		{ID: 7, Address: "10.0.0.7:8000", Name: "vllm-0:8000", Models: []string{llama}, Adapters: []string{"sql-lora"}, Group: "default", Ranks: 2, State: fleet.Active, Since: since},
		{ID: bigID, Address: "[fd00::8]:8000", Name: "[fd00::8]:8000", Models: []string{llama}, Group: "default", Ranks: 1, State: fleet.Active, Since: since},
		{ID: 9, Address: "10.0.0.9:8000", Name: "10.0.0.9:8000", Models: []string{"qwen", "qwen-long"}, Group: "batch", Ranks: 1, State: fleet.Unhealthy, Since: since},
	}
}

func newReplica(t *testing.T, workers []fleet.Worker, session affinity.Config) *replica {
	t.Helper()
	r := &replica{
		t: t, live: fleet.NewLive(fleet.NewView(workers)), registry: prometheus.NewRegistry(),
		ready: admin.Readiness{Ready: true}, routes: make(map[string]*routing.Route),
	}
	logger := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	session.Logger, session.Registerer = logger, r.registry
	var err error
	if r.sessions, err = affinity.NewResolver(r.live, session); err != nil {
		t.Fatal(err)
	}
	r.router = routing.NewRouter(r.live, r.sessions, routing.Config{})
	r.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mooring_requests_total", Help: "Requests."}, []string{"reason", "code"})
	r.registry.MustRegister(r.requests)
	r.handler = admin.Handler(admin.Config{
		Fleet: r.live, Sessions: r.sessions, Router: r.router, Ready: func() admin.Readiness { return r.ready },
		Peers:    func() []admin.Peer { return r.peers },
		Owners:   func() []reconcile.OwnerReport { return r.owners },
		KV:       func(w kvstate.Worker) admin.KV { return r.kv[w] },
		Gatherer: r.registry, Registerer: r.registry, Host: "mooring.internal", ReplicaID: replicaID, Version: "v1.2.3", Logger: logger,
	})
	return r
}

// route sends a request of a session, which runs until release.
func (r *replica) route(model, group, session string) *routing.Route {
	r.t.Helper()
	route, err := r.router.Route(context.Background(), &routing.Request{Model: model, Group: group, Session: session, ID: "1"})
	if err != nil {
		r.t.Fatal(err)
	}
	r.requests.WithLabelValues(route.Reason.String(), "200").Inc()
	r.routes[session] = route
	return route
}

func (r *replica) release(session string) {
	r.routes[session].Release(affinity.Completed)
}

var qwenBatch = fleet.Partition{Model: "qwen", Group: "batch"}

// sessionPage is what a client needs of /v1/sessions.
type sessionPage struct {
	Sessions []struct {
		Session string `json:"session"`
	} `json:"sessions"`
	Next string `json:"next"`
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) (value T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return value
}
