package simworker

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Worker is one simulated worker. Its methods are safe for concurrent use.
type Worker struct {
	cfg     Config
	engine  *engine
	lanes   []*lane // by rank; none without KV events
	metrics *metrics
	history history
	started time.Time

	serial   atomic.Uint64 // completions answered, for their ids
	attempts atomic.Uint64 // requests that FailRate counts
}

// New returns a worker, or every mistake of cfg at once.
func New(cfg Config) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("simulated worker: %w", err)
	}
	e := newEngine(cfg)
	w := &Worker{
		cfg:     cfg,
		engine:  e,
		metrics: newMetrics(cfg.Models[0], e),
		started: time.Now(),
	}
	if err := w.makeLanes(); err != nil {
		return nil, fmt.Errorf("simulated worker: %w", err)
	}
	return w, nil
}

// Handler returns the worker's HTTP API. Every answer carries x-sim-worker.
func (w *Worker) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(rw http.ResponseWriter, r *http.Request) {
			if err := serve(rw, r); err != nil {
				w.answerError(rw, err)
			}
		})
	}
	handle("POST /v1/chat/completions", w.chat)
	handle("POST /v1/completions", w.completions)
	handle("POST /v1/embeddings", w.embeddings)
	handle("GET /v1/models", w.models)
	handle("POST /tokenize", w.tokenize)
	handle("POST /detokenize", w.detokenize)
	handle("POST /reset_prefix_cache", w.resetPrefixCache)
	handle("POST "+controlPath+"{rank}", w.agentControl)
	handle("POST /debug/engine/restart", w.debugRestart)
	handle("POST /debug/agent/attach", w.debugAttach)
	handle("POST /debug/agent/detach", w.debugDetach)
	handle("POST /debug/agent/fault", w.debugFault)
	handle("POST /debug/echo", w.debugEcho)
	handle("GET /debug/stream", w.debugStream)
	handle("GET /debug/requests", w.debugRequests)
	handle("/", w.noRoute)
	mux.HandleFunc("GET /health", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusOK) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.metrics.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(w.cfg.Logger.Handler(), slog.LevelWarn),
	}))
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		setDeadlines(rw, r)
		rw.Header().Set("X-Sim-Worker", w.cfg.Name)
		mux.ServeHTTP(rw, r)
	})
}

// noRoute answers what no other pattern matches. The request is remembered: a
// proxy may have changed its path.
func (w *Worker) noRoute(_ http.ResponseWriter, r *http.Request) error {
	w.history.add(received(r))
	return &apiError{http.StatusNotFound, refusedNoRoute, fmt.Sprintf("this worker has no %s %s", r.Method, r.URL.Path)}
}

// maybeFail fails the share of calls that Config.FailRate asks for: the n-th
// call fails when n*FailRate passes a whole number.
func (w *Worker) maybeFail() error {
	n := float64(w.attempts.Add(1))
	if math.Floor(n*w.cfg.FailRate) == math.Floor((n-1)*w.cfg.FailRate) {
		return nil
	}
	return &apiError{http.StatusInternalServerError, refusedSimulated, "simulated failure"}
}
