package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mooring/internal/envoyproc"
)

// bench is a stack without the race detector, for numbers. Its parts end with
// the benchmark.
type bench struct {
	b       *testing.B
	binary  string
	dir     string
	replica *exec.Cmd
	gateway string
}

// startBench starts a worker, a replica and Envoy.
func startBench(b *testing.B, bodyMode string) *bench {
	b.Helper()
	s := &bench{b: b, dir: b.TempDir()}
	s.binary = filepath.Join(s.dir, "extproc")
	if out, err := exec.Command("go", "build", "-o", s.binary, "../cmd/extproc").CombinedOutput(); err != nil {
		b.Fatalf("build extproc: %v\n%s", err, out)
	}
	_, worker := s.start("addr", "worker", "--listen", "127.0.0.1:0", "--model", "sim", "--first-token", "0s", "--per-token", "0s")
	config := filepath.Join(s.dir, "mooring.yaml")
	text := fmt.Sprintf("listen: {extproc: 'unix://%s', admin: '127.0.0.1:0'}\nreplication: {listen: ''}\nworkers: {static: [{address: %q, models: [sim]}]}\nenvoy: {listener: '127.0.0.1:0', body_mode: %s}\n",
		filepath.Join(s.dir, "extproc.sock"), worker, bodyMode)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	s.replica, _ = s.start("admin", "serve", "--config", config)
	bootstrap, err := exec.Command(s.binary, "envoy", "--config", config).Output()
	if err != nil {
		b.Fatal(err)
	}
	bootstrap = bytes.Replace(bootstrap, []byte("port_value: 9901"), []byte("port_value: 0"), 1)
	envoy, err := envoyproc.Start(context.Background(), envoyproc.Config{Bootstrap: bootstrap, Concurrency: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { envoy.Kill() })
	address, ok := envoy.Listener("mooring")
	if !ok {
		b.Fatal("envoy has no listener called mooring")
	}
	s.gateway = address
	return s
}

// start starts a command, waits until it is ready and returns what its log says
// under key.
func (s *bench) start(key string, args ...string) (*exec.Cmd, string) {
	s.b.Helper()
	cmd := exec.Command(s.binary, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		s.b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.b.Fatal(err)
	}
	s.b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	log := json.NewDecoder(stderr)
	for {
		var line map[string]any
		if err := log.Decode(&line); err != nil {
			s.b.Fatalf("%v is not ready: %v", args, err)
		}
		if line["msg"] == "ready" {
			go io.Copy(io.Discard, io.MultiReader(log.Buffered(), stderr))
			return cmd, line[key].(string)
		}
	}
}

// cpu is what a process has used, user and system.
func (s *bench) cpu() time.Duration {
	s.b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.replica.Process.Pid))
	if err != nil {
		s.b.Fatalf("CPU time: %v", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var user, system int64
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	const tick = 10 * time.Millisecond // USER_HZ is 100 on Linux
	return time.Duration(user+system) * tick
}

// BenchmarkBodyModes compares the ways in which bodies pass the filter, for
// sessions that are bound and known by their headers: in full duplex each body
// passes through it, in mode none it is not shown. The filter's own CPU time for
// a request is reported beside the time of a request.
func BenchmarkBodyModes(b *testing.B) {
	for _, mode := range []string{"full_duplex", "none", "buffered"} {
		for _, size := range []int{2 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("mode=%s/body=%d", mode, size), func(b *testing.B) {
				s := startBench(b, mode)
				body := strings.Repeat("x", size)
				client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
				defer client.CloseIdleConnections()
				var n atomic.Int64
				request := func() error {
					r, err := send(client, http.MethodPost, s.gateway, "/debug/echo", strings.NewReader(body), map[string]string{"X-Session-Id": fmt.Sprint("bench-", n.Add(1)%64)})
					if err == nil && r.status != http.StatusOK {
						err = fmt.Errorf("status %d: %s", r.status, r.body)
					}
					return err
				}
				for range 256 { // binds the sessions
					if err := request(); err != nil {
						b.Fatal(err)
					}
				}
				before := s.cpu()
				b.SetParallelism(16 / runtime.GOMAXPROCS(0)) // 16 in flight
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := request(); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
				b.ReportMetric(float64((s.cpu()-before).Microseconds())/float64(b.N), "filter-µs/op")
			})
		}
	}
}
