package envoy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"mooring/envoy"
	"mooring/internal/envoyproc"
	"mooring/internal/fleet"
)

// everySetting returns one configuration for every combination of what can be
// chosen, by a name that says what it is.
func everySetting(endpoints string, server, client identity) map[string]envoy.Config {
	tlsSettings := []*envoy.TLS{
		nil, {}, {CAFile: server.cert, ServerName: "mooring.test"},
		{CAFile: server.cert, CertFile: client.cert, KeyFile: client.key},
	}
	listeners := [][]envoy.Listener{
		{{Name: "tcp", Address: "127.0.0.1:0", ExtProc: "127.0.0.1:9002"}},
		{{Name: "unix", Address: ":0", ExtProc: "unix:///run/mooring/extproc.sock"}},
		{
			{Name: "a", Address: "127.0.0.1:0", ExtProc: "mooring.example:9002"},
			{Name: "b", Address: "[::1]:0", ExtProc: "[::1]:9002"},
			{Name: "c", Address: "127.0.0.1:0", ExtProc: "mooring.example:9002"},
		},
	}
	all := make(map[string]envoy.Config)
	for a := envoy.OverrideHost; a <= envoy.OriginalDst; a++ {
		for b := envoy.FullDuplex; b <= envoy.Buffered; b++ {
			for e := envoy.AccessLog; e <= envoy.Stream; e++ {
				for x, expose := range []bool{false, true} {
					for s, tls := range tlsSettings {
						for l, listen := range listeners {
							all[fmt.Sprintf("attachment %d, body %d, end %d, expose %d, tls %d, listeners %d", a, b, e, x, s, l)] = envoy.Config{
								Listeners: listen, Attachment: a, BodyMode: b, End: e, Expose: expose, EndpointsFile: endpoints, TLS: tls, AdminAddress: "127.0.0.1:0",
							}
						}
					}
				}
			}
		}
	}
	return all
}

func TestEnvoyTakesEveryCombinationOfSettings(t *testing.T) {
	binary, err := envoyproc.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	endpoints := filepath.Join(dir, "eds", "workers.yaml")
	if err := envoy.WriteEndpoints(endpoints, fleet.NewView(nil)); err != nil {
		t.Fatal(err)
	}
	all := everySetting(endpoints, newIdentity(t, "mooring.test"), newIdentity(t, "envoy.test"))
	free := make(chan struct{}, runtime.NumCPU())
	results := make(chan string, len(all))
	for name, cfg := range all {
		free <- struct{}{}
		go func() {
			defer func() { <-free }()
			if err := validate(t.Context(), binary, filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".yaml"), cfg); err != nil {
				results <- name + ": " + err.Error()
				return
			}
			results <- ""
		}()
	}
	for range all {
		if wrong := <-results; wrong != "" {
			t.Error(wrong)
		}
	}
	t.Logf("%d combinations", len(all))
}

func validate(ctx context.Context, binary, path string, cfg envoy.Config) error {
	text, err := envoy.BootstrapYAML(cfg)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "--mode", "validate", "--log-level", "critical", "--config-path", path)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func TestPiecesMakeUpTheBootstrap(t *testing.T) {
	for name, cfg := range everySetting("/run/mooring/workers.yaml", identity{cert: "/s.crt"}, identity{cert: "/c.crt", key: "/c.key"}) {
		whole, err := envoy.BootstrapYAML(cfg)
		if err != nil {
			t.Fatal(err)
		}
		filter, err := envoy.FilterYAML(cfg)
		if err != nil {
			t.Fatal(err)
		}
		clusters, err := envoy.ClusterYAML(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []struct{ what, text string }{{"filter", string(filter)}, {"clusters", string(clusters)}} {
			// Every line of a piece but its comments is one of the bootstrap's,
			// indented deeper.
			for line := range strings.Lines(part.text) {
				line = strings.TrimSpace(line)
				if !strings.HasPrefix(line, "#") && !strings.Contains(string(whole), " "+line+"\n") {
					t.Fatalf("%s: the piece %s has a line that the bootstrap lacks: %q", name, part.what, line)
				}
			}
		}
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	good := envoy.Config{Listeners: oneListener(), EndpointsFile: "/run/workers.yaml"}
	tests := []struct {
		name   string
		change func(*envoy.Config)
		want   string
	}{
		{"no listener", func(c *envoy.Config) { c.Listeners = nil }, "no listener"},
		{"two of one name", func(c *envoy.Config) { c.Listeners = append(c.Listeners, c.Listeners...) }, `listener "mooring": want unique names`},
		{"a relative file", func(c *envoy.Config) { c.EndpointsFile = "workers.yaml" }, "want an absolute path"},
		{"a certificate without its key", func(c *envoy.Config) { c.TLS = &envoy.TLS{CertFile: "/c"} }, "both a certificate and its key"},
		{"a listener on a name", func(c *envoy.Config) { c.Listeners[0].Address = "localhost:1" }, "IP addresses only"},
		{"a listener on no port", func(c *envoy.Config) { c.Listeners[0].Address = "127.0.0.1" }, "want ip:port"},
		{"Mooring on port 0", func(c *envoy.Config) { c.Listeners[0].ExtProc = "127.0.0.1:0" }, "want a port from 1 to 65535"},
		{"Mooring on no host", func(c *envoy.Config) { c.Listeners[0].ExtProc = ":9002" }, "want host:port"},
		{"a relative socket", func(c *envoy.Config) { c.Listeners[0].ExtProc = "unix://x" }, "absolute path"},
		{"an unknown mode", func(c *envoy.Config) { c.BodyMode = 3 }, "unknown choice"},
		{"a body beyond 32 bits", func(c *envoy.Config) { c.MaxBodyBytes = 1 << 32 }, "4 GiB"},
		{"time that runs backwards", func(c *envoy.Config) { c.Deadline = -1 }, "negative time"},
		{"the admin API on a name", func(c *envoy.Config) { c.AdminAddress = "localhost:1" }, "admin: "},
	}
	for _, tt := range tests {
		cfg := good
		cfg.Listeners = oneListener()
		tt.change(&cfg)
		if _, err := envoy.Bootstrap(cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q in it", tt.name, err, tt.want)
		}
	}
	if _, err := envoy.Bootstrap(envoy.Config{BodyMode: 9, Deadline: -1}); strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("want every problem at once, got:\n%v", err)
	}
}
