package envoy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"mooring/envoy"
	"mooring/internal/envoyproc"
	"mooring/internal/fleet"
)

// settings is what two configurations of one Envoy may differ in, listener by
// listener: clusters depend on nothing here.
type settings struct {
	body   envoy.BodyMode
	end    envoy.End
	expose bool
}

func everySetting() (all []settings) {
	for b := envoy.FullDuplex; b <= envoy.Buffered; b++ {
		for e := envoy.AccessLog; e <= envoy.Stream; e++ {
			all = append(all, settings{b, e, false}, settings{b, e, true})
		}
	}
	return all
}

// everyCluster returns every combination of what clusters depend on.
func everyCluster(endpoints string, server, client identity) (all []envoy.Config) {
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
	for a := envoy.OverrideHost; a <= envoy.OriginalDst; a++ {
		for _, tls := range tlsSettings {
			for _, listen := range listeners {
				all = append(all, envoy.Config{Listeners: listen, Attachment: a, EndpointsFile: endpoints, TLS: tls, AdminAddress: "127.0.0.1:0"})
			}
		}
	}
	return all
}

// with returns cfg with other settings, its listeners named after them.
func (s settings) with(cfg envoy.Config) envoy.Config {
	cfg.BodyMode, cfg.End, cfg.Expose = s.body, s.end, s.expose
	cfg.Listeners = slices.Clone(cfg.Listeners)
	for i := range cfg.Listeners {
		cfg.Listeners[i].Name += fmt.Sprintf("-body%d-end%d-expose%v", s.body, s.end, s.expose)
	}
	return cfg
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
	all := everyCluster(endpoints, newIdentity(t, "mooring.test"), newIdentity(t, "envoy.test"))
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i, cfg := range all {
		group.Go(func() error {
			if err := validate(t.Context(), binary, filepath.Join(dir, strconv.Itoa(i)+".json"), together(t, cfg)); err != nil {
				t.Errorf("%+v, tls %+v: %v", cfg, cfg.TLS, err)
			}
			return nil
		})
	}
	group.Wait()
}

// together returns one bootstrap with the listeners of every setting: Envoy
// takes a tenth of a second to start.
func together(t *testing.T, cfg envoy.Config) *bootstrapv3.Bootstrap {
	var all *bootstrapv3.Bootstrap
	for _, s := range everySetting() {
		b, err := envoy.Bootstrap(s.with(cfg))
		if err != nil {
			t.Error(err)
			continue
		}
		if all == nil {
			all = b
			continue
		}
		all.StaticResources.Listeners = append(all.StaticResources.Listeners, b.StaticResources.Listeners...)
		if !proto.Equal(all.Node, b.Node) || !proto.Equal(all.Admin, b.Admin) ||
			!slices.EqualFunc(all.StaticResources.Clusters, b.StaticResources.Clusters, func(x, y *clusterv3.Cluster) bool { return proto.Equal(x, y) }) {
			t.Errorf("%+v: more than its listeners differ", s)
		}
	}
	return all
}

func validate(ctx context.Context, binary, path string, bootstrap *bootstrapv3.Bootstrap) error {
	text, err := protojson.Marshal(bootstrap)
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

// The goldens are Envoy's to judge too: they are what users get to see.
func TestEnvoyTakesTheYAML(t *testing.T) {
	binary, err := envoyproc.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	endpoints := filepath.Join(dir, "workers.yaml")
	if err := envoy.WriteEndpoints(endpoints, fleet.NewView(nil)); err != nil {
		t.Fatal(err)
	}
	text, err := envoy.BootstrapYAML(envoy.Config{Listeners: oneListener(), EndpointsFile: endpoints, Expose: true})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "bootstrap.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, "--mode", "validate", "-c", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPiecesMakeUpTheBootstrap(t *testing.T) {
	base := everyCluster("/run/mooring/workers.yaml", identity{cert: "/s.crt"}, identity{cert: "/c.crt", key: "/c.key"})
	for i, s := range everySetting() {
		cfg := s.with(base[i%len(base)])
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
					t.Fatalf("%+v: the piece %s has a line that the bootstrap lacks: %q", s, part.what, line)
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
