package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mooring/internal/envoyproc"
)

// stack is a gateway as a user would run it: simulated workers, one replica and
// a real Envoy, each a process of its own, on loopback.
type stack struct {
	t       *testing.T
	config  stackConfig
	dir     string
	workers []*simWorker
	replica *process
	envoy   *envoyproc.Process
	gateway string // host:port of Envoy's listener
	admin   string // URL of the replica's admin API
}

// simWorker is an `extproc worker` process.
type simWorker struct {
	*process
	address string
	model   string
	ready   map[string]any // its log line, with the addresses it has
}

// stackConfig says what differs from the plain stack: three workers of one model.
type stackConfig struct {
	models      []string // one worker for each; nil: three of "sim"
	workerFlags []string
	yaml        string // further top-level keys of the configuration, as text
	replication string // the value of its replication key; "": a mesh on a free port, with no peers
	envoyYAML   string // further keys under envoy:

	flagsOfEach [][]string                // further flags of each worker; nil: none
	workerKeys  func(w *simWorker) string // further keys of a worker in workers.yaml, as ", ranks: 2"; nil: none

	env           []string                            // added to the replica's environment
	editBootstrap func(t *testing.T, b []byte) []byte // changes what Envoy gets; nil: nothing
}

// newStack starts everything and waits until requests can be served.
func newStack(t *testing.T, cfg stackConfig) *stack {
	t.Helper()
	s := &stack{t: t, dir: t.TempDir(), config: cfg}
	if cfg.models == nil {
		cfg.models = []string{"sim", "sim", "sim"}
	}
	for i, model := range cfg.models {
		flags := cfg.workerFlags
		if cfg.flagsOfEach != nil {
			flags = slices.Concat(flags, cfg.flagsOfEach[i])
		}
		s.startWorker(model, flags...)
	}
	s.writeWorkers()
	// Tests run beside each other: the default mesh port would be taken.
	mesh := cmp.Or(cfg.replication, `{listen: "tcp://127.0.0.1:0"}`)
	s.write("mooring.yaml", fmt.Sprintf(`
listen: {extproc: "unix://%s", admin: "127.0.0.1:0"}
replication: %s
workers:
  file: workers.yaml
  health: {path: /health, interval: 200ms, timeout: 5s, unhealthy_after: 2, healthy_after: 2}
  grace: 5s
envoy:
  listener: 127.0.0.1:0
%s
%s`, filepath.Join(s.dir, "extproc.sock"), mesh, indent(cfg.envoyYAML), cfg.yaml))
	s.startReplica()
	s.startEnvoy()
	return s
}

func indent(yaml string) string {
	if yaml == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(strings.TrimSpace(yaml), "\n", "\n  ")
}

// startWorker starts one more simulated worker; writeWorkers makes it known.
func (s *stack) startWorker(model string, flags ...string) *simWorker {
	s.t.Helper()
	args := append([]string{"worker", "--listen", "127.0.0.1:0", "--model", model, "--first-token", "1ms", "--per-token", "100us"}, flags...)
	w := &simWorker{process: run(s.t, fmt.Sprintf("worker %d", len(s.workers)), args...), model: model}
	w.ready = w.waitLog("ready")
	w.address = w.ready["addr"].(string)
	s.workers = append(s.workers, w)
	return w
}

// writeWorkers writes the workers file as an operator would: whole, by rename.
func (s *stack) writeWorkers() {
	s.t.Helper()
	var b strings.Builder
	for _, w := range s.workers {
		more := ""
		if s.config.workerKeys != nil {
			more = s.config.workerKeys(w)
		}
		fmt.Fprintf(&b, "- {address: %q, models: [%q]%s}\n", w.address, w.model, more)
	}
	s.write("workers.yaml", b.String())
}

func (s *stack) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path+".new", []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		s.t.Fatal(err)
	}
}

// startReplica starts the filter and waits until it is ready.
func (s *stack) startReplica() {
	s.t.Helper()
	s.replica = runWith(s.t, s.config.env, "replica", "serve", "--config", filepath.Join(s.dir, "mooring.yaml"))
	s.admin = "http://" + s.replica.waitLog("ready")["admin"].(string)
}

// startEnvoy starts a real Envoy with the bootstrap that `extproc envoy` prints.
func (s *stack) startEnvoy() {
	s.t.Helper()
	cmd := exec.Command(binary, "envoy", "--config", filepath.Join(s.dir, "mooring.yaml"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	bootstrap, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("extproc envoy: %v\n%s", err, stderr.String())
	}
	// Tests run beside each other: each Envoy takes a free port for its admin API.
	bootstrap = bytes.Replace(bootstrap, []byte("port_value: 9901"), []byte("port_value: 0"), 1)
	if edit := s.config.editBootstrap; edit != nil {
		bootstrap = edit(s.t, bootstrap)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	log := new(lockedBuffer)
	s.envoy, err = envoyproc.Start(ctx, envoyproc.Config{Bootstrap: bootstrap, Log: log})
	if err != nil {
		s.t.Fatalf("start envoy: %v\n%s", err, log)
	}
	s.t.Cleanup(func() {
		s.envoy.Kill()
		if s.t.Failed() {
			s.t.Logf("log of envoy:\n%s", log)
		}
	})
	address, ok := s.envoy.Listener("mooring")
	if !ok {
		s.t.Fatal("envoy has no listener called mooring")
	}
	s.gateway = address
}

// get reads a path of the replica's admin API into a value.
func (s *stack) get(path string, into any) {
	s.t.Helper()
	resp, err := http.Get(s.admin + path)
	if err != nil {
		s.t.Fatalf("GET %s: %v", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: %v, status %d, %s", path, err, resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		s.t.Fatalf("GET %s: %v in %s", path, err, body)
	}
}
