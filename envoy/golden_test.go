package envoy_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mooring/envoy"
	"mooring/internal/fleet"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func oneListener() []envoy.Listener {
	return []envoy.Listener{{Name: "mooring", Address: "127.0.0.1:10000", ExtProc: "127.0.0.1:9002"}}
}

func TestGolden(t *testing.T) {
	defaults := envoy.Config{Listeners: oneListener(), EndpointsFile: "/var/lib/mooring/endpoints/workers.yaml", AdminAddress: "127.0.0.1:9901"}
	two := envoy.Config{
		Listeners: []envoy.Listener{
			{Name: "a", Address: "0.0.0.0:10000", ExtProc: "unix:///run/mooring/a.sock"},
			{Name: "b", Address: "[::]:10001", ExtProc: "mooring.example:9002"},
		},
		Attachment: envoy.OriginalDst, BodyMode: envoy.Buffered, End: envoy.Stream, Expose: true,
		Deadline: 500 * time.Millisecond, MaxBodyBytes: 4 << 20, MaxRequestTime: 10 * time.Minute,
		TLS: &envoy.TLS{CAFile: "/etc/mooring/ca.crt", ServerName: "mooring.example", CertFile: "/etc/envoy/client.crt", KeyFile: "/etc/envoy/client.key"},
	}
	pull := defaults
	pull.BodyMode, pull.Expose = envoy.HeadersOnly, true
	for name, made := range map[string]func() ([]byte, error){
		"default.yaml":          func() ([]byte, error) { return envoy.BootstrapYAML(defaults) },
		"two-listeners.yaml":    func() ([]byte, error) { return envoy.BootstrapYAML(two) },
		"headers-only.yaml":     func() ([]byte, error) { return envoy.BootstrapYAML(pull) },
		"piece-filter.yaml":     func() ([]byte, error) { return envoy.FilterYAML(pull) },
		"piece-clusters.yaml":   func() ([]byte, error) { return envoy.ClusterYAML(defaults) },
		"piece-filter-two.yaml": func() ([]byte, error) { return envoy.FilterYAML(two) },
		"endpoints.yaml":        func() ([]byte, error) { return writtenEndpoints(t) },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := made()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s differs (-update rewrites it):\n%s", path, diff)
			}
		})
	}
}

func writtenEndpoints(t *testing.T) ([]byte, error) {
	path := filepath.Join(t.TempDir(), "eds", "workers.yaml")
	view := fleet.NewView([]fleet.Worker{
		{ID: 1, Address: "10.0.0.8:8000", State: fleet.Active},
		{ID: 2, Address: "[2001:db8::1]:8000", State: fleet.Draining},
		{ID: 3, Address: "10.0.0.7:8000", State: fleet.Vanished},
		{ID: 4, Address: "10.0.0.7:8000", State: fleet.Unhealthy},
		{ID: 5, Address: "a.name:8000", State: fleet.Active},
	})
	if err := envoy.WriteEndpoints(path, view); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
