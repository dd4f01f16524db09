package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mooring/envoy"
	"mooring/internal/config"
	"mooring/internal/envoyproc"
	"mooring/internal/fleet"
)

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mooring.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The empty file's Envoy configuration works as printed, once Mooring has
// written its endpoints.
func TestPrintedEnvoyConfigurationIsValid(t *testing.T) {
	binary, err := envoyproc.Find()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{}", "envoy: {attachment: original_dst, body_mode: none}\nrequest: {end: stream}\nlisten: {extproc: 'unix:///run/m.sock'}"} {
		c := parsed(t, text)
		if err := envoy.WriteEndpoints(c.Envoy.EndpointsFile, fleet.NewView(nil)); err != nil {
			t.Fatal(err)
		}
		printed, err := printEnvoy(c, false, false)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "envoy.yaml")
		if err := os.WriteFile(path, printed, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), binary, "--mode", "validate", "-c", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", text, err, out)
		}
	}
}

func TestEnvoyReachesWhatMooringListensOn(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:9002":     "127.0.0.1:9002",
		"0.0.0.0:9002":       "127.0.0.1:9002",
		":9002":              "127.0.0.1:9002",
		"[::]:9002":          "127.0.0.1:9002",
		"mooring.local:9002": "mooring.local:9002",
		"unix:///run/m.sock": "unix:///run/m.sock",
	} {
		cfg, err := envoyConfig(parsed(t, "listen: {extproc: '"+listen+"'}"))
		if err != nil || cfg.Listeners[0].ExtProc != want {
			t.Errorf("%s: got %v, %v; want %s", listen, cfg.Listeners, err, want)
		}
	}
	if _, err := envoyConfig(parsed(t, "listen: {extproc: '127.0.0.1:0'}")); err == nil || !strings.Contains(err.Error(), "listen.extproc: port 0") {
		t.Errorf("port 0: %v", err)
	}
}

func TestEnvoyConfigTakesEverySetting(t *testing.T) {
	cfg, err := envoyConfig(parsed(t, `
listen: {tls: {cert_file: a.crt, key_file: a.key, client_ca_file: ca.crt}}
request: {end: stream, deadline: 700ms, max_body_bytes: 1MiB, max_request_time: 5m}
session: {expose: true}
envoy: {listener: 'localhost:10001', attachment: original_dst, body_mode: buffered}
`))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Attachment != envoy.OriginalDst || cfg.BodyMode != envoy.Buffered || cfg.End != envoy.Stream || !cfg.Expose ||
		cfg.Deadline.String() != "700ms" || cfg.MaxBodyBytes != 1<<20 || cfg.MaxRequestTime.String() != "5m0s" ||
		cfg.Listeners[0].Address != "127.0.0.1:10001" || filepath.Base(cfg.TLS.CAFile) != "a.crt" || cfg.TLS.CertFile != envoyCertFile {
		t.Errorf("got %+v", cfg)
	}
}

func TestEnvoyCommandPrintsThePieceAskedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mooring.yaml")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"": "static_resources:", "--filter-only": "http_filters:", "--cluster-only": "clusters:"} {
		cmd := envoyCommand()
		var out strings.Builder
		cmd.SetOut(&out)
		args := []string{"--config", path}
		if flag != "" {
			args = append(args, flag)
		}
		cmd.SetArgs(args)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "\n"+want+"\n") {
			t.Errorf("%q printed:\n%s", flag, out.String())
		}
	}
}
