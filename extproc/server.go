package extproc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"mooring/routing"
)

// livenessService is the health service name that is always SERVING; the others
// follow readiness.
const livenessService = "liveness"

func readinessServices() []string {
	return []string{"", "readiness", extprocv3.ExternalProcessor_ServiceDesc.ServiceName}
}

// Server serves ext_proc, the access log and gRPC health for one router. Make it
// with New, hand it to a grpc.Server with Register, and run its clock with Run.
// All methods are safe for concurrent use.
type Server struct {
	extprocv3.UnimplementedExternalProcessorServer

	router   *routing.Router
	cfg      Config
	metrics  *metrics
	tracer   trace.Tracer // nil: there are no spans
	answers  *answers
	held     *budget
	ledger   *ledger
	reports  reports
	gateways *gateways
	health   *health.Server

	ready    atomic.Bool
	live     atomic.Int64 // open ext_proc streams
	newest   atomic.Int64 // when the newest of them began, nanoseconds since epoch
	epoch    time.Time
	draining chan struct{} // closed: streams that are done with their request may end
	closing  chan struct{} // closed: streams that nobody waits for must end
	changed  chan struct{} // capacity 1: something that Drain waits for may have ended
	drain    sync.Once
	complain complaints
}

// New returns a Server that is not ready.
func New(router *routing.Router, cfg Config) (*Server, error) {
	if router == nil {
		return nil, errors.New("the filter needs a router")
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m := newMetrics()
	s := &Server{
		router: router, cfg: cfg, metrics: m,
		answers:  newAnswers(&cfg),
		held:     &budget{limit: cfg.MaxBufferedBytes},
		ledger:   newLedger(cfg.FirstLease, cfg.MaxLeases, m),
		gateways: newGateways(),
		health:   health.NewServer(),
		epoch:    time.Now(),
		draining: make(chan struct{}), closing: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	if cfg.Tracing != nil {
		s.tracer = cfg.Tracing.Tracer(tracerName)
	}
	if err := m.register(cfg.Registerer, s.ledger.len); err != nil {
		return nil, err
	}
	s.health.SetServingStatus(livenessService, healthv1.HealthCheckResponse_SERVING)
	s.SetReady(false)
	return s, nil
}

// Register adds the services to g: ext_proc, the access log, and health.
func (s *Server) Register(g *grpc.Server) {
	extprocv3.RegisterExternalProcessorServer(g, s)
	logv3.RegisterAccessLogServiceServer(g, accessLog{Server: s})
	healthv1.RegisterHealthServer(g, s.health)
}

// ServerOptions returns what a grpc.Server needs to serve Envoys well.
func ServerOptions(cfg Config) []grpc.ServerOption {
	setDefault(&cfg.MaxBodyBytes, 16<<20)
	return []grpc.ServerOption{
		// A buffered body comes in one message.
		grpc.MaxRecvMsgSize(int(cfg.MaxBodyBytes) + messageSlack),
		grpc.InitialWindowSize(1 << 20),
		grpc.InitialConnWindowSize(16 << 20),
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.WaitForHandlers(true),
		// Envoy's connection_keepalive is answered at any time; by default gRPC
		// would close the connection for it.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	}
}

// SetReady says whether requests are taken. Until then Process answers
// UNAVAILABLE, so that a replica that knows nothing yet cannot move sessions.
func (s *Server) SetReady(ready bool) {
	s.ready.Store(ready)
	serving := healthv1.HealthCheckResponse_NOT_SERVING
	if ready && !isClosed(s.draining) {
		serving = healthv1.HealthCheckResponse_SERVING
	}
	for _, name := range readinessServices() {
		s.health.SetServingStatus(name, serving)
	}
}

// mayPick reports whether what this process knows is good enough for a pick.
func (s *Server) mayPick() bool {
	return s.ready.Load() && (s.cfg.Awake == nil || s.cfg.Awake())
}

// Run ends leases that nobody reports. It returns when ctx ends, with its error.
func (s *Server) Run(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			s.tick(time.Now())
		}
	}
}

func (s *Server) tick(now time.Time) {
	s.ledger.expire(now.Add(-s.cfg.MaxRequestTime))
	s.ledger.orphan(s.gateways.orphaned(now.Add(-orphanAfter)))
	if s.cfg.End == AccessLog && s.reports.silent(now) {
		s.metrics.unloaded.Add(float64(s.ledger.unload(now.Add(-unloadAfter))))
	}
	s.nudge()
}

// Warnings says, for /readyz, what is wrong although requests are served.
func (s *Server) Warnings() []string {
	if s.cfg.End == AccessLog && s.reports.silent(time.Now()) {
		return []string{"requests are routed but no Envoy has had an access log stream open for 10 s: load figures are wrong; add the access log that `extproc envoy` prints"}
	}
	return nil
}

// quietFor is how long no request must have come before a draining server takes
// it that everybody has heard: readiness takes a while to reach the gateways.
const quietFor = 3 * time.Second

// Drain ends the service in peace: health says NOT_SERVING, requests that still
// come are served, and Drain waits until none has come for a while, no stream is
// open and every routed request has been reported, or until ctx ends. Then the
// access log streams are ended, and a GracefulStop of the grpc.Server has nothing
// to wait for but requests whose pick is not answered.
func (s *Server) Drain(ctx context.Context) {
	s.drain.Do(func() {
		close(s.draining)
		for _, name := range readinessServices() {
			s.health.SetServingStatus(name, healthv1.HealthCheckResponse_NOT_SERVING)
		}
		s.awaitQuiet(ctx)
		close(s.closing)
	})
}

func (s *Server) awaitQuiet(ctx context.Context) {
	look := time.NewTicker(quietFor / 10)
	defer look.Stop()
	for s.live.Load() > 0 || s.awaitsReports() || s.busy() {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
		case <-look.C:
		}
	}
}

// busy reports whether a request has come lately.
func (s *Server) busy() bool {
	newest := s.newest.Load()
	return newest != 0 && time.Since(s.epoch)-time.Duration(newest) < quietFor
}

// awaitsReports reports whether ends are awaited that somebody may report.
func (s *Server) awaitsReports() bool {
	return s.ledger.len() > 0 && s.reports.any()
}

// nudge makes Drain look again, if it waits.
func (s *Server) nudge() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// panicked counts a panic of this package or below, once recovered, and returns
// the status of its stream. The stack holds no prompt text.
func (s *Server) panicked(where string, p any) error {
	s.metrics.panics.Inc()
	s.cfg.Logger.Error("panic", "where", where, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "internal error")
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
