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
		Short: "See it work: workers, Mooring and a real Envoy on this machine, with nothing configured",
		Long: `Starts three simulated workers, one Mooring and a real Envoy with two listeners, all on
loopback, and drives a dozen conversations of four turns through both listeners in turn.
It prints a line for each request: where it went, why, and how many blocks of its prompt
that worker had in its KV cache. Then it stays up with a status page until Ctrl-C.

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

	fmt.Fprintf(out, "starting %d workers, one Mooring, and Envoy with two listeners\n", demoWorkers)
	workers, err := startDemoWorkers(stage, g)
	if err != nil {
		return err
	}
	r, err := newReplica(demoConfig(dir, workers), "", slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	g.Go(func() error { return r.run(stage) })
	select {
	case <-r.ready:
	case <-stage.Done():
		return context.Cause(stage)
	}
	proxy, err := startDemoEnvoy(stage, r.config.Load())
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
status page  http://%s/
listener a   http://%s
listener b   http://%s
try it       curl -s -H 'x-session-id: mine' -H 'content-type: application/json' http://%s/v1/chat/completions \
               -d '{"model":"%s","messages":[{"role":"user","content":"hello"}]}' -D -
Ctrl-C ends it
`, r.adminListener.Addr(), listeners[0], listeners[1], listeners[0], demoModel)
	<-stage.Done()
	return moved
}

// demoListeners returns the names of Envoy's listeners.
func demoListeners() []string { return []string{"a", "b"} }

func startDemoWorkers(ctx context.Context, g *errgroup.Group) ([]config.WorkerSpec, error) {
	var specs []config.WorkerSpec
	for n := range demoWorkers {
		w, err := simworker.New(simworker.Config{
			Name: fmt.Sprintf("worker-%d", n+1), Models: []string{demoModel}, BlockSize: demoBlockSize,
			FirstToken: 150 * time.Millisecond, PerToken: 3 * time.Millisecond, Tokens: 24,
		})
		if err != nil {
			return nil, err
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		g.Go(func() error { return w.Serve(ctx, ln) })
		specs = append(specs, config.WorkerSpec{
			Address: ln.Addr().String(), Models: []string{demoModel}, RoutingGroup: "default", Ranks: 1,
		})
	}
	return specs, nil
}

// demoConfig is what a person would write to put Mooring between an Envoy and
// workers on one machine, but for the ports, which are free ones.
func demoConfig(dir string, workers []config.WorkerSpec) *config.Config {
	cfg := config.Default()
	cfg.Listen.ExtProc = "unix://" + filepath.Join(dir, "extproc.sock")
	cfg.Listen.Admin = "127.0.0.1:0"
	cfg.Session.Expose = true
	cfg.Workers.Static = workers
	cfg.Workers.Health.Interval = 500 * time.Millisecond
	cfg.Envoy.Listener = "127.0.0.1:0"
	cfg.Envoy.EndpointsFile = filepath.Join(dir, config.DefaultEndpointsFile)
	cfg.Shutdown.Drain = 2 * time.Second
	return cfg
}

func startDemoEnvoy(ctx context.Context, cfg *config.Config) (*envoyproc.Process, error) {
	generated, err := envoyConfig(cfg)
	if err != nil {
		return nil, err
	}
	one := generated.Listeners[0]
	generated.Listeners = nil
	for _, name := range demoListeners() {
		one.Name = name
		generated.Listeners = append(generated.Listeners, one)
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
