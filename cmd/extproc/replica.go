package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"mooring/affinity"
	"mooring/envoy"
	"mooring/extproc"
	"mooring/internal/admin"
	"mooring/internal/config"
	"mooring/internal/discovery"
	"mooring/internal/fleet"
	"mooring/replication"
	"mooring/routing"
)

// endpointSettle is how long a worker that appears while Mooring runs is not
// picked yet: Envoy reads its endpoints from a file, which tells nobody when it
// has been read, and a worker that Envoy does not know is a 503.
const endpointSettle = time.Second

// replica is one Mooring: everything that `extproc serve` runs, built from the
// configuration and not started yet.
type replica struct {
	id         uint64
	configPath string
	logger     *slog.Logger
	registry   *prometheus.Registry

	discovery *discovery.Discovery
	filter    *extproc.Server
	grpc      *grpc.Server
	sessions  *affinity.Resolver
	kv        *kvState
	router    *routing.Router
	endpoints *envoy.EndpointsFile // nil: Envoy takes no endpoints from us
	mesh      *mesh                // nil: bindings are not replicated
	vigil     *vigil
	flush     func() error // of the spans that have not left yet

	extprocListener, adminListener net.Listener

	started *config.Config                // the file as it was at the start
	config  atomic.Pointer[config.Config] // the file as it is in force; replaced by reload only
	ready   chan struct{}                 // closed once requests are served
	drains  atomic.Bool                   // set when the process was told to stop

	configNote, workersNote atomic.Pointer[string] // why a file as it is now is not in force; nil: it is
}

// newReplica opens the listeners and builds the parts, in the order of their
// dependencies. configPath may be empty: then nothing is reloaded.
func newReplica(cfg *config.Config, configPath string, logger *slog.Logger) (*replica, error) {
	id, err := newReplicaID()
	if err != nil {
		return nil, err
	}
	r := &replica{id: id, configPath: configPath, logger: logger, registry: newRegistry(), vigil: newVigil(), started: cfg, ready: make(chan struct{})}
	r.config.Store(cfg)
	if err := r.build(cfg); err != nil {
		return nil, err
	}
	if r.extprocListener, err = listen("listen.extproc", cfg.Listen.ExtProc); err != nil {
		return nil, err
	}
	if r.adminListener, err = listen("listen.admin", cfg.Listen.Admin); err != nil {
		r.extprocListener.Close()
		return nil, err
	}
	if cfg.Replication.Listen == "" {
		return r, nil
	}
	ended := func(e replication.End) { r.filter.EndFromElsewhere(extproc.RemoteEnd(e)) }
	if r.mesh, err = newMesh(cfg, id, r.sessions, ended, logger, r.registry); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *replica) build(cfg *config.Config) error {
	r.discovery = discovery.New(discoveryConfig(cfg, r.logger, r.registry))
	if err := r.readWorkers(cfg); err != nil {
		return err
	}
	if cfg.Envoy.Attachment == config.AttachOverrideHost {
		r.endpoints = envoy.NewEndpointsFile(cfg.Envoy.EndpointsFile, r.discovery.Live(), r.logger, r.registry)
	}
	var err error
	sessionConfig := affinityConfig(cfg, r.id, r.logger, r.registry)
	if cfg.Replication.Listen != "" {
		sessionConfig.Publish = func(p fleet.Partition, e affinity.Event) { r.mesh.core.Local(p, e) }
	}
	if r.sessions, err = affinity.NewResolver(r.discovery.Live(), sessionConfig); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	tracing, flush, err := newTracing(context.Background(), cfg.Telemetry.ServiceName, r.logger)
	if err != nil {
		return err
	}
	r.flush = flush
	if r.kv, err = newKVState(cfg, r.discovery.Live(), tracing, r.logger, r.registry); err != nil {
		return err
	}
	r.router = routing.NewRouter(r.discovery.Live(), r.sessions, routingConfig(cfg, r.kv, r.registry))
	r.kv.router = r.router
	filterConfig := extprocConfig(cfg, r.id, tracing, r.logger, r.registry)
	filterConfig.ConnectFailed = r.discovery.ConnectFailed
	if cfg.Replication.Listen != "" {
		filterConfig.Elsewhere = func(e extproc.RemoteEnd) bool { return r.mesh.endElsewhere(e) }
		filterConfig.Awake = func() bool { return r.vigil.awake() || r.mesh.alone() }
	}
	if r.filter, err = extproc.New(r.router, filterConfig); err != nil {
		return fmt.Errorf("listen.extproc: %w", err)
	}
	identity, err := serverTLS(cfg.Listen.TLS, r.logger)
	if err != nil {
		return err
	}
	r.grpc = grpc.NewServer(serverOptions(filterConfig, identity)...)
	r.filter.Register(r.grpc)
	return nil
}

func serverOptions(cfg extproc.Config, identity *tls.Config) []grpc.ServerOption {
	options := extproc.ServerOptions(cfg)
	if identity != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(identity)))
	}
	return options
}

// run serves until ctx ends, then drains. It returns when everything it started
// has ended.
func (r *replica) run(ctx context.Context) error {
	// The parts outlive ctx: they work on while the filter drains.
	parts, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, parts := errgroup.WithContext(parts)
	cfg := r.config.Load()

	if r.endpoints != nil {
		// The first one is written before anybody is told that we are ready: an
		// Envoy without its endpoints file does not start.
		if err := r.endpoints.Write(); err != nil {
			r.close()
			return fmt.Errorf("envoy.endpoints_file: %w", err)
		}
		g.Go(func() error { return r.endpoints.Keep(parts) })
	}
	g.Go(func() error { return r.discovery.Run(parts) })
	g.Go(func() error { return r.sessions.Run(parts) })
	g.Go(func() error { return r.kv.run(parts) })
	g.Go(func() error { return r.filter.Run(parts) })
	g.Go(func() error { return r.watch(parts) })
	g.Go(func() error { return r.grpc.Serve(r.filter.Listener(r.extprocListener)) })
	g.Go(func() error { return admin.Serve(parts, r.adminListener, r.adminHandler()) })
	if r.mesh != nil {
		g.Go(func() error { return r.mesh.run(parts) })
	}
	g.Go(func() error {
		if r.becomeReady(parts) && r.mesh != nil {
			r.vigil.run(parts, r.wake)
		}
		return nil
	})
	g.Go(func() error {
		select {
		case <-ctx.Done():
			r.drain(cfg.Shutdown.Drain)
		case <-parts.Done(): // a part failed
			r.grpc.Stop()
		}
		stop()
		return nil
	})
	err := g.Wait()
	if err := r.flush(); err != nil {
		r.logger.Warn("the last spans were lost", "error", err)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	r.logger.Info("stopped")
	return nil
}

// close gives the listeners of a replica back that does not run.
func (r *replica) close() {
	r.extprocListener.Close()
	r.adminListener.Close()
	if r.mesh != nil {
		r.mesh.transport.Close()
	}
}

// becomeReady waits for the first round of probes: before it, nobody would be
// schedulable, and sessions would be refused for no reason. And for the peers'
// bindings: without them, their sessions would be bound anew. And, for some
// seconds, for the KV state: without it, new sessions would be bound far from
// their prefixes. It reports false if ctx ended before.
func (r *replica) becomeReady(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-r.discovery.Settled():
	}
	select {
	case <-ctx.Done():
		return false
	case <-r.kv.reconciler.Settled():
	}
	meshEndpoint := ""
	if r.mesh != nil {
		if r.mesh.join(ctx) != nil {
			return false
		}
		meshEndpoint = r.mesh.endpoint()
	}
	// From here on the vigil's ticks count.
	r.vigil.last.Store(int64(time.Since(r.vigil.epoch)))
	r.filter.SetReady(true)
	close(r.ready)
	r.logger.Info("ready",
		"extproc", r.extprocListener.Addr().String(),
		"admin", r.adminListener.Addr().String(),
		"mesh", meshEndpoint,
		"replica", fmt.Sprint(r.id),
		"workers", len(r.discovery.Live().View().Workers()))
	return true
}

// wake brings up to date what the replica missed while its process was stopped.
func (r *replica) wake(ctx context.Context) {
	if r.mesh.alone() {
		return
	}
	r.logger.Warn("the process was stopped; joining its peers again before it serves")
	r.filter.SetReady(false)
	if r.mesh.rejoin(ctx) != nil {
		return // the end
	}
	r.filter.SetReady(true)
	r.logger.Info("ready again", "by", r.mesh.state())
}

// drain ends the service without cutting anything that ends within limit.
func (r *replica) drain(limit time.Duration) {
	r.logger.Info("draining", "limit", limit.String())
	r.drains.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r.filter.Drain(ctx)
	// What is left after the limit is cut; GracefulStop only waits for what
	// Drain could not know of: answers still on their way out.
	cut := time.AfterFunc(time.Second, r.grpc.Stop)
	defer cut.Stop()
	r.grpc.GracefulStop()
}

func newReplicaID() (uint64, error) {
	var b [8]byte
	for {
		if _, err := rand.Read(b[:]); err != nil {
			return 0, fmt.Errorf("make a replica id: %w", err)
		}
		if id := binary.BigEndian.Uint64(b[:]); id != 0 {
			return id, nil
		}
	}
}

func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}
