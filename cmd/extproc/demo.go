package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"mooring/envoy"
	"mooring/internal/config"
	"mooring/internal/envoyproc"
	"mooring/internal/simworker"
)

// The demo's scene: small enough to follow line by line, large enough that
// staying on one worker by chance is out of the question.
const (
	demoWorkers       = 3
	demoConversations = 12
	demoTurns         = 4
	demoModel         = "demo"
	demoBlockSize     = 16
)

func demoCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: workers, two Moorings and a real Envoy on this machine, with nothing configured",
		Long: `Starts three simulated workers that publish KV events, two Mooring replicas that replicate
their bindings to each other, and a real Envoy with a listener for each replica, all on loopback.
It drives a dozen conversations of four turns, each turn through the other listener, and so the
other replica, than the one before. Each conversation begins with one of three long instructions,
so that most of them open where theirs is cached already. It prints a line for each request: where
it went, why, and how many blocks of its prompt that worker had in its KV cache. Then it stays up
with a status page until Ctrl-C.

The Envoy binary is $ENVOY, or envoy on PATH, or the one that make demo installs.`,
		Example: "  extproc demo\n  extproc demo --once && echo every turn kept its worker",
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo(cmd.Context(), cmd.OutOrStdout(), once)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "end after the conversations; exit code 1 unless every turn kept its worker")
	return cmd
}

// demo runs the scene until the conversations are over and, unless once, until
// ctx ends.
func demo(ctx context.Context, out io.Writer, once bool) (err error) {
	dir, err := os.MkdirTemp("", "mooring-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stage, cancel := context.WithCancel(ctx)
	g, stage := errgroup.WithContext(stage)
	defer func() { // the scene ends as a whole, whatever happened in it
		cancel()
		err = errors.Join(err, g.Wait())
	}()

	fmt.Fprintf(out, "starting %d workers, two Mooring replicas, and Envoy with a listener for each\n", demoWorkers)
	workers, err := startDemoWorkers(stage, g)
	if err != nil {
		return err
	}
	replicas, err := startDemoReplicas(stage, g, dir, workers)
	if err != nil {
		return err
	}
	proxy, err := startDemoEnvoy(stage, replicas)
	if err != nil {
		return err
	}
	defer stopEnvoy(proxy)
	var listeners []string
	for _, name := range demoListeners() {
		address, ok := proxy.Listener(name)
		if !ok {
			return fmt.Errorf("envoy has no listener %s", name)
		}
		listeners = append(listeners, address)
	}
	moved, err := playConversations(stage, out, listeners)
	if err != nil || once {
		return errors.Join(err, moved)
	}
	fmt.Fprintf(out, `
status pages http://%s/ and http://%s/
listener a   http://%s
listener b   http://%s
try it       curl -s -H 'x-session-id: mine' -H 'content-type: application/json' http://%s/v1/chat/completions \
               -d '{"model":"%s","messages":[{"role":"user","content":"hello"}]}' -D -
Ctrl-C ends it
`, replicas[0].adminListener.Addr(), replicas[1].adminListener.Addr(), listeners[0], listeners[1], listeners[0], demoModel)
	<-stage.Done()
	return moved
}

// demoListeners returns the names of Envoy's listeners, each with a replica.
func demoListeners() []string { return []string{"a", "b"} }

// startDemoWorkers starts the workers and returns when all of them are bound.
func startDemoWorkers(ctx context.Context, g *errgroup.Group) ([]config.WorkerSpec, error) {
	var specs []config.WorkerSpec
	for n := range demoWorkers {
		bound := make(chan simworker.Endpoints, 1)
		w, err := simworker.New(simworker.Config{
			Name: fmt.Sprintf("worker-%d", n+1), Models: []string{demoModel}, BlockSize: demoBlockSize,
			FirstToken: 150 * time.Millisecond, PerToken: 3 * time.Millisecond, Tokens: 24,
			Events: simworker.KVEvents{Endpoint: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0"},
			Ready:  func(e simworker.Endpoints) { bound <- e },
		})
		if err != nil {
			return nil, err
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		g.Go(func() error { return w.Serve(ctx, ln) })
		select {
		case e := <-bound:
			specs = append(specs, config.WorkerSpec{
				Address: e.HTTP, Models: []string{demoModel}, RoutingGroup: "default", Ranks: 1, KVEvents: e.KVEvents, KVReplay: e.KVReplay,
			})
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return specs, nil
}

// startDemoReplicas starts a replica for each listener, and returns when they are
// ready and hear one another.
func startDemoReplicas(ctx context.Context, g *errgroup.Group, dir string, workers []config.WorkerSpec) ([]*replica, error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var replicas []*replica
	var endpoints []string
	for _, name := range demoListeners() {
		r, err := newReplica(demoConfig(dir, name, workers), "", logger)
		if err != nil {
			for _, before := range replicas {
				before.close()
			}
			return nil, err
		}
		replicas, endpoints = append(replicas, r), append(endpoints, r.mesh.endpoint())
	}
	for _, r := range replicas {
		if err := r.mesh.transport.SetPeers(endpoints); err != nil {
			return nil, err // cannot be: they are bound
		}
		g.Go(func() error { return r.run(ctx) })
	}
	for _, r := range replicas {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return replicas, nil
}

// demoConfig is what a person would write to put a replica between an Envoy and
// workers on one machine, but for the ports, which are free ones.
func demoConfig(dir, name string, workers []config.WorkerSpec) *config.Config {
	cfg := config.Default()
	cfg.Listen.ExtProc = "unix://" + filepath.Join(dir, name+".sock")
	cfg.Replication.Listen = "tcp://127.0.0.1:0"
	cfg.Listen.Admin = "127.0.0.1:0"
	cfg.Session.Expose = true
	cfg.Workers.Static = workers
	cfg.Workers.Health.Interval = 500 * time.Millisecond
	cfg.Envoy.Listener = "127.0.0.1:0"
	cfg.Envoy.EndpointsFile = filepath.Join(dir, name, config.DefaultEndpointsFile)
	cfg.Shutdown.Drain = 2 * time.Second
	return cfg
}

// startDemoEnvoy starts an Envoy with a listener for each replica. The workers'
// endpoints are those of the first: all replicas have the same.
func startDemoEnvoy(ctx context.Context, replicas []*replica) (*envoyproc.Process, error) {
	generated, err := envoyConfig(replicas[0].config.Load())
	if err != nil {
		return nil, err
	}
	generated.Listeners = nil
	for i, name := range demoListeners() {
		one, err := envoyConfig(replicas[i].config.Load())
		if err != nil {
			return nil, err
		}
		one.Listeners[0].Name = name
		generated.Listeners = append(generated.Listeners, one.Listeners[0])
	}
	generated.AdminAddress = "127.0.0.1:0"
	bootstrap, err := envoy.BootstrapYAML(generated)
	if err != nil {
		return nil, err
	}
	return envoyproc.Start(ctx, envoyproc.Config{Bootstrap: bootstrap, Log: os.Stderr, LogLevel: "error", Concurrency: 1})
}

func stopEnvoy(proxy *envoyproc.Process) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := proxy.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "extproc: envoy:", err)
	}
}
