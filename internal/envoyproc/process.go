package envoyproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// startBound is how long Envoy may take to open its listeners.
const startBound = 30 * time.Second

// Config says what to start.
type Config struct {
	// Binary is the path of Envoy; empty: what Find finds.
	Binary string
	// Bootstrap is Envoy's configuration, YAML or JSON.
	Bootstrap []byte
	// Concurrency is Envoy's number of worker threads; 0: one per core.
	Concurrency int
	// LogLevel is Envoy's: trace, debug, info, warning, error or off. Empty:
	// warning.
	LogLevel string
	// Log receives Envoy's log, from one goroutine at a time; nil: nobody reads
	// it.
	Log io.Writer
}

// Process is a running Envoy. Its methods may be called by any goroutine. It
// must be ended with Stop or Kill, which also remove its files.
type Process struct {
	admin     string            // "host:port"
	listeners map[string]string // name -> "host:port"
	client    *http.Client
	child     *os.Process
	dir       string
	done      chan struct{} // closed when the child has been reaped
	exit      error         // why it ended; read after done
}

// Start starts Envoy and returns when all its listeners are open. If ctx ends
// or 30 s pass before that, or Envoy gives up, the child is gone when Start
// returns its error. ctx does not end a started Envoy.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	if cfg.Binary == "" {
		var err error
		if cfg.Binary, err = Find(); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "mooring-envoy-")
	if err != nil {
		return nil, fmt.Errorf("start envoy: %w", err)
	}
	p := &Process{client: &http.Client{Transport: &http.Transport{}}, dir: dir, done: make(chan struct{})}
	if err := p.start(cfg); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("start envoy: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := p.waitReady(ctx); err != nil {
		p.Kill()
		return nil, fmt.Errorf("start envoy: %w", err)
	}
	return p, nil
}

func (p *Process) start(cfg Config) error {
	bootstrap := filepath.Join(p.dir, "bootstrap.yaml")
	if err := os.WriteFile(bootstrap, cfg.Bootstrap, 0o600); err != nil {
		return err
	}
	cmd := exec.Command(cfg.Binary, arguments(cfg, bootstrap, p.adminFile())...)
	cmd.Stdout, cmd.Stderr = cfg.Log, cfg.Log
	cmd.SysProcAttr = childAttributes()
	cmd.WaitDelay = time.Second
	started := make(chan error)
	go p.run(cmd, started)
	return <-started
}

func arguments(cfg Config, bootstrap, adminFile string) []string {
	level := cfg.LogLevel
	if level == "" {
		level = "warning"
	}
	args := []string{
		"--config-path", bootstrap, "--admin-address-path", adminFile,
		"--use-dynamic-base-id", "--log-level", level,
	}
	if cfg.Concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(cfg.Concurrency))
	}
	return args
}

// run starts the child and waits for its end on one thread of its own: the
// kernel sends the parent death signal when the thread that started the child
// ends, not the process.
func (p *Process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.child = cmd.Process
	started <- nil
	p.exit = cmd.Wait()
	close(p.done)
}

func (p *Process) adminFile() string { return filepath.Join(p.dir, "admin") }

// Done is closed when Envoy has ended, by whatever cause.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID returns the child's process id.
func (p *Process) PID() int { return p.child.Pid }

// Admin returns the address of the admin API, "host:port".
func (p *Process) Admin() string { return p.admin }

// Listener returns the address that a listener is bound to, "host:port".
func (p *Process) Listener(name string) (address string, ok bool) {
	address, ok = p.listeners[name]
	return address, ok
}

// Stop ends Envoy with SIGTERM and, if it is still there when ctx ends, with
// SIGKILL, and returns when it is gone. Envoy does not drain on SIGTERM: what
// runs is cut. The error says if it ended otherwise than by the signal; a
// second call does nothing.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop envoy: %w", err)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop envoy: it ignores SIGTERM: %w", ctx.Err()), p.Kill())
	}
	p.cleanUp()
	if p.exit != nil && !endedBy(p.exit, syscall.SIGTERM) {
		return fmt.Errorf("envoy ended: %w", p.exit)
	}
	return nil
}

// Kill ends Envoy with SIGKILL and returns when it is gone.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill envoy: %w", err)
	}
	<-p.done
	p.cleanUp()
	return nil
}

// signal does nothing if the child has ended.
func (p *Process) signal(s syscall.Signal) error {
	if err := p.child.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (p *Process) cleanUp() {
	p.client.CloseIdleConnections()
	os.RemoveAll(p.dir)
}

func endedBy(err error, s syscall.Signal) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == s
}
