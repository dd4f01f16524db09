package envoyproc_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mooring/internal/envoyproc"
)

const bound = 20 * time.Second

const bootstrap = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - name: first
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains: &answer
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: test
          http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 418}}]}]}
  - name: second
    address: {socket_address: {address: "127.0.0.1", port_value: 0}}
    filter_chains: *answer
  clusters:
  - name: there
    type: STATIC
    load_assignment:
      cluster_name: there
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.1, port_value: 80}}}}, {endpoint: {address: {pipe: {path: /run/x}}}}]}]
`

// TestMain makes the test binary, asked by the environment, a parent that starts
// Envoy, says its process id and dies.
func TestMain(m *testing.M) {
	if os.Getenv("ENVOYPROC_TEST_PARENT") == "" {
		os.Exit(m.Run())
	}
	p, err := envoyproc.Start(context.Background(), envoyproc.Config{Bootstrap: []byte(bootstrap), Concurrency: 1})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(strconv.Itoa(p.PID()))
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func start(t *testing.T) *envoyproc.Process {
	t.Helper()
	p, err := envoyproc.Start(t.Context(), envoyproc.Config{Bootstrap: []byte(bootstrap), Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	return p
}

func TestStartedEnvoyListensAndAnswers(t *testing.T) {
	p := start(t)
	for _, name := range []string{"first", "second"} {
		address, ok := p.Listener(name)
		if !ok {
			t.Fatalf("no listener %s", name)
		}
		resp, err := http.Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusTeapot {
			t.Errorf("%s: got %d", name, resp.StatusCode)
		}
	}
	if _, ok := p.Listener("third"); ok {
		t.Error("there is a third listener")
	}
	stats, err := p.Stats(t.Context(), `^http\.test\.downstream_rq_4xx$`)
	if err != nil || len(stats) != 1 || stats["http.test.downstream_rq_4xx"] != 2 {
		t.Errorf("stats %v, %v", stats, err)
	}
	hosts, err := p.Hosts(t.Context(), "there")
	if err != nil || strings.Join(hosts, " ") != "10.0.0.1:80 /run/x" {
		t.Errorf("hosts %q, %v", hosts, err)
	}
	if hosts, err := p.Hosts(t.Context(), "elsewhere"); err != nil || len(hosts) > 0 {
		t.Errorf("hosts of no cluster: %q, %v", hosts, err)
	}
}

func TestStopEndsItAndMayBeRepeated(t *testing.T) {
	p := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	for range 2 {
		if err := p.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	<-p.Done()
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", p.Admin()); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
}

func TestStopKillsWhatIgnoresIt(t *testing.T) {
	p := start(t)
	if err := syscall.Kill(p.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); err == nil || !strings.Contains(err.Error(), "ignores SIGTERM") {
		t.Errorf("got %v", err)
	}
	<-p.Done()
}

func TestStartSaysWhyItFails(t *testing.T) {
	var log bytes.Buffer
	_, err := envoyproc.Start(t.Context(), envoyproc.Config{Bootstrap: []byte("static_resources: {oops: 1}"), Log: &log})
	if err == nil || !strings.Contains(err.Error(), "gave up: exit status 1") || !strings.Contains(log.String(), "oops") {
		t.Errorf("got %v and the log %s", err, &log)
	}
	if _, err := envoyproc.Start(t.Context(), envoyproc.Config{Binary: "/nowhere/envoy"}); err == nil {
		t.Error("started a binary that is not there")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := envoyproc.Start(ctx, envoyproc.Config{Bootstrap: []byte(bootstrap)}); err == nil {
		t.Error("started for a caller who had left")
	}
}

func TestChildDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "ENVOYPROC_TEST_PARENT=1")
	out, err := parent.Output()
	pid, parseErr := strconv.Atoi(string(out))
	if parseErr != nil {
		t.Fatalf("the parent said %q and ended with %v", out, err)
	}
	deadline := time.Now().Add(bound)
	for alive(pid) {
		if time.Now().After(deadline) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the child outlived its parent")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// alive reports whether a process runs: an orphan that nobody reaps does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return state[0] != 'Z'
}
