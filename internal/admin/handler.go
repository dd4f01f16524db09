package admin

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/reconcile"
	"mooring/routing"
)

// Config says what is shown. Fleet, Sessions, Router, Ready and Gatherer are
// required.
type Config struct {
	// Fleet has the workers.
	Fleet *fleet.Live
	// Sessions has the bindings.
	Sessions *affinity.Resolver
	// Router knows the live requests of this replica.
	Router *routing.Router
	// Ready tells whether this replica takes requests. It must be quick and safe
	// for concurrent use.
	Ready func() Readiness
	// Peers tells what is known of the configured peers, in their order. It must
	// be quick and safe for concurrent use. Nil: there are none.
	Peers func() []Peer
	// Owners tells what is known of the cache owners. It must be safe for
	// concurrent use. Nil: there are none.
	Owners func() []reconcile.OwnerReport
	// KV tells how the KV state of one rank of a worker stands. It must be quick
	// and safe for concurrent use. Nil: nothing is known of any.
	KV func(kvstate.Worker) KV
	// Gatherer has what /metrics shows.
	Gatherer prometheus.Gatherer
	// Registerer gets this package's own metric. Nil: it is not registered.
	Registerer prometheus.Registerer
	// Host is the host name by which the listener was configured, accepted in
	// the Host header beside addresses and localhost. Empty: none.
	Host string
	// ReplicaID is shown to tell replicas and restarts apart.
	ReplicaID uint64
	// Version is the build, shown as it is.
	Version string
	// Logger gets one debug line for each request, without its path. Nil discards.
	Logger *slog.Logger
}

// Readiness is the answer of /readyz.
type Readiness struct {
	Ready    bool     `json:"ready"`
	Reasons  []string `json:"reasons"`  // why it is not ready
	Warnings []string `json:"warnings"` // what deserves a look although it works

	// Replication says how the replica came to its peers' bindings: off, alone (no
	// peers), joining, digest (peers answered and were repaired) or timeout.
	Replication string `json:"replication,omitzero"`
}

// Handler returns the admin API and page. It may be called concurrently.
func Handler(cfg Config) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{
		cfg:     cfg,
		writes:  http.NewCrossOriginProtection(),
		page:    assemblePage(),
		refused: newRefused(cfg.Registerer),
	}
	metrics := promhttp.HandlerFor(cfg.Gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	s.fixed = map[string]resource{
		"/":              {http.MethodGet: s.getPage},
		"/healthz":       {http.MethodGet: s.getHealth},
		"/readyz":        {http.MethodGet: s.getReady},
		"/metrics":       {http.MethodGet: func(w http.ResponseWriter, r *http.Request) error { metrics.ServeHTTP(w, r); return nil }},
		"/v1/workers":    {http.MethodGet: s.getWorkers},
		"/v1/peers":      {http.MethodGet: s.getPeers},
		"/v1/projection": {http.MethodGet: s.getProjection},
		"/v1/sessions":   {http.MethodGet: s.listSessions},
		"/v1/explain":    {http.MethodPost: s.postExplain},
	}
	s.session = resource{http.MethodGet: s.getSession, http.MethodPut: s.putSession, http.MethodDelete: s.deleteSession}
	return s
}

// maxScrapes bounds the metrics being gathered at one time; more get 503.
const maxScrapes = 8

// server is the handler. Its fields never change.
type server struct {
	cfg     Config
	writes  *http.CrossOriginProtection
	page    page
	refused *prometheus.CounterVec

	fixed   map[string]resource // by escaped path
	session resource            // /v1/sessions/{model}/{group}/{id}
}

// resource is what one path can do, by method. HEAD goes with GET. An error that
// a method returns is answered by refuse and nowhere else; nothing may have been
// written before.
type resource map[string]func(http.ResponseWriter, *http.Request) error

// allow returns the value of the Allow header.
func (res resource) allow() string {
	methods := slices.Sorted(maps.Keys(res))
	if _, ok := res[http.MethodGet]; ok {
		methods = append(methods, http.MethodHead)
	}
	return strings.Join(methods, ", ")
}

// ServeHTTP matches the escaped path itself: http.ServeMux answers in plain text
// and redirects what it takes for an unclean path, and a session id may be "..".
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if err := s.serve(w, r); err != nil {
		s.refuse(w, r, err)
	}
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) error {
	if err := s.guard(r); err != nil {
		return err
	}
	path := r.URL.EscapedPath()
	res, ok := s.fixed[path]
	if !ok && isSessionPath(path) {
		res, ok = s.session, true
	}
	if !ok {
		return notFound("nothing is here; see / for a page, /v1/workers and /v1/sessions for JSON, /metrics for Prometheus")
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	do, ok := res[method]
	if !ok {
		w.Header().Set("Allow", res.allow())
		return &refusal{status: http.StatusMethodNotAllowed, kind: "method_not_allowed", message: "this path takes " + res.allow()}
	}
	if method != http.MethodGet {
		if err := s.guardWrite(r); err != nil {
			return err
		}
	}
	s.cfg.Logger.Debug("admin_request", "method", r.Method)
	return do(w, r)
}

// health is the answer of /healthz: that there is one says that the process works.
type health struct {
	ReplicaID uint64 `json:"replica_id,string"`
	Version   string `json:"version"`
}

func (s *server) getHealth(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, health{s.cfg.ReplicaID, s.cfg.Version})
}

func (s *server) getReady(w http.ResponseWriter, _ *http.Request) error {
	state := s.cfg.Ready()
	status := http.StatusOK
	if !state.Ready {
		status = http.StatusServiceUnavailable
	}
	return answer(w, status, state)
}
