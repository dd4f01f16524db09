package envoy_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/envoy"
	"mooring/internal/fleet"
)

func viewOf(addresses ...string) *fleet.View {
	var workers []fleet.Worker
	for i, a := range addresses {
		workers = append(workers, fleet.Worker{ID: fleet.WorkerID(i + 1), Address: a, Models: []string{"m"}, Ranks: 1})
	}
	return fleet.NewView(workers)
}

func TestEndpointsLeavesOutWhatEnvoyWouldRefuse(t *testing.T) {
	got := envoy.Endpoints(viewOf("10.0.0.1:80", "name:80", "10.0.0.1", "10.0.0.1:0", "[fe80::1%eth0]:80", "", "10.0.0.1:80", "[::1]:80"))
	var addresses []string
	for _, e := range got.GetEndpoints()[0].GetLbEndpoints() {
		a := e.GetEndpoint().GetAddress().GetSocketAddress()
		addresses = append(addresses, joinHostPort(a.GetAddress(), a.GetPortValue()))
	}
	if s := strings.Join(addresses, " "); s != "10.0.0.1:80 [::1]:80" {
		t.Errorf("got %s", s)
	}
	if err := got.ValidateAll(); err != nil {
		t.Error(err)
	}
}

func TestWriteEndpointsMakesDirectoryAndFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "workers.yaml")
	if err := envoy.WriteEndpoints(path, viewOf("10.0.0.1:80")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{filepath.Dir(path): os.ModeDir | 0o755, path: 0o644} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestWriteEndpointsReplacesOnlyWhatChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.yaml")
	inode := func(view *fleet.View) uint64 {
		if err := envoy.WriteEndpoints(path, view); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Ino
	}
	first := inode(viewOf("10.0.0.1:80", "10.0.0.2:80"))
	if inode(viewOf("10.0.0.2:80", "10.0.0.1:80")) != first {
		t.Error("rewritten although it says the same")
	}
	second := inode(viewOf("10.0.0.1:80", "10.0.0.3:80")) // of the same length
	if second == first {
		t.Error("written in place, which Envoy does not notice, or not at all")
	}
	// Somebody's edit of the same length is put right.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("10.0.0.3"), []byte("10.0.0.9")), 0o644); err != nil {
		t.Fatal(err)
	}
	inode(viewOf("10.0.0.1:80", "10.0.0.3:80"))
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(text, again) {
		t.Errorf("got %s, %v", again, err)
	}
}

func TestWriteEndpointsRefusesWhatOthersControl(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if err := envoy.WriteEndpoints(filepath.Join(link, "workers.yaml"), viewOf()); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("through a link: %v", err)
	}
	if err := os.Mkdir(filepath.Join(real, "workers.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := envoy.WriteEndpoints(filepath.Join(real, "workers.yaml"), viewOf()); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("over a directory: %v", err)
	}
	foreign := "/proc"
	if os.Geteuid() == 0 {
		foreign = filepath.Join(dir, "foreign")
		if err := os.Mkdir(foreign, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	if err := envoy.WriteEndpoints(filepath.Join(foreign, "workers.yaml"), viewOf()); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("in another's directory: %v", err)
	}
}

// A link at the file's place is replaced, not followed.
func TestWriteEndpointsDoesNotFollowALinkedFile(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "workers.yaml")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	if err := envoy.WriteEndpoints(path, viewOf("10.0.0.1:80")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("the victim says %q, %v", text, err)
	}
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v", info, err)
	}
}

func TestKeepEndpointsFollowsTheFleet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eds", "workers.yaml")
	synctest.Test(t, func(t *testing.T) {
		live := fleet.NewLive(viewOf("10.0.0.1:80"))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- envoy.NewEndpointsFile(path, live, nil, nil).Keep(ctx) }()
		for _, address := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
			live.Publish(viewOf(address + ":80"))
			synctest.Wait()
			if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), address+"\n") {
				t.Errorf("%s is not in %s (%v)", address, text, err)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestKeepEndpointsTriesAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "eds", "workers.yaml")
	if err := os.WriteFile(filepath.Join(dir, "eds"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var log syncBuffer
		registry := prometheus.NewRegistry()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		live := fleet.NewLive(viewOf("10.0.0.1:80"))
		file := envoy.NewEndpointsFile(path, live, slog.New(slog.NewTextHandler(&log, nil)), registry)
		go func() { done <- file.Keep(ctx) }()
		// Attempts at 0, 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 s, then every 5 s.
		time.Sleep(21500 * time.Millisecond)
		if n := strings.Count(log.String(), "not written"); n != 10 || !strings.Contains(log.String(), "failures=10 retry_in=5s") {
			t.Errorf("%d attempts; the log:\n%s", n, log.String())
		}
		wantMetrics(t, registry, 10, 1)
		if w := file.Warning(); !strings.Contains(w, "cannot be written") || !strings.Contains(w, "not a directory") {
			t.Errorf("warning %q", w)
		}
		live.Publish(viewOf("10.0.0.2:80")) // tried at once
		synctest.Wait()
		if n := strings.Count(log.String(), "not written"); n != 11 {
			t.Errorf("%d attempts after a change", n)
		}
		if err := os.Remove(filepath.Join(dir, "eds")); err != nil {
			t.Error(err)
		}
		time.Sleep(200 * time.Millisecond)
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "10.0.0.2\n") {
			t.Errorf("%s, %v", text, err)
		}
		if !strings.Contains(log.String(), "written again") || !strings.Contains(log.String(), "failures=11\n") {
			t.Errorf("the log:\n%s", log.String())
		}
		wantMetrics(t, registry, 11, 0)
		if w := file.Warning(); w != "" {
			t.Errorf("warning %q", w)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// What another process does to the file is put right, whatever the fleet does.
func TestKeepEndpointsPutsRightWhatOthersChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eds", "workers.yaml")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		live := fleet.NewLive(viewOf("10.0.0.1:80"))
		var log syncBuffer
		file := envoy.NewEndpointsFile(path, live, slog.New(slog.NewTextHandler(&log, nil)), nil)
		go func() { done <- file.Keep(ctx) }()
		synctest.Wait()
		for i, harm := range []func() error{
			func() error { return envoy.WriteEndpoints(path, viewOf("10.0.0.9:80")) },
			func() error { return os.RemoveAll(filepath.Dir(path)) },
		} {
			if w := file.Warning(); i == 0 && w != "" {
				t.Errorf("warning %q", w)
			}
			if err := harm(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "10.0.0.1\n") || strings.Contains(string(text), "10.0.0.9") {
				t.Errorf("harm %d: %s, %v", i, text, err)
			}
			if n := strings.Count(log.String(), "another process"); n != i+1 || !strings.Contains(file.Warning(), "was changed or removed by another process") {
				t.Errorf("harm %d: warning %q, the log:\n%s", i, file.Warning(), log.String())
			}
		}
		live.Publish(viewOf("10.0.0.2:80")) // our own change is none of another's
		time.Sleep(time.Hour)
		if n := strings.Count(log.String(), "another process"); n != 2 || file.Warning() != "" {
			t.Errorf("an hour later: warning %q, the log:\n%s", file.Warning(), log.String())
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func wantMetrics(t *testing.T, registry *prometheus.Registry, failures, stale float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	want := map[string]float64{"mooring_envoy_endpoints_failures_total": failures, "mooring_envoy_endpoints_stale": stale, "mooring_envoy_endpoints_overwritten_total": 0}
	if !maps.Equal(got, want) {
		t.Errorf("metrics are %v, want %v", got, want)
	}
}
