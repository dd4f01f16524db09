package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mooring/internal/config"
)

func TestEveryNamedFileIsLookedAt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mooring.yaml")
	if err := os.WriteFile(path, []byte(`listen:
  tls: {cert_file: none.pem, key_file: none.key, client_ca_file: ca.pem}
workers:
  file: workers.yaml
envoy:
  endpoints_file: .
replication: {key_file: short.key}
kvstate: {records_dir: short.key}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "short.key"), []byte("  fifteen bytes..\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	err = c.CheckFiles()
	if err == nil {
		t.Fatal("want problems")
	}
	lines := strings.Split(strings.ReplaceAll(err.Error(), dir+"/", ""), "\n")
	want := []string{
		"mooring.yaml:2: listen.tls.cert_file: certificate and key cannot be used: open none.pem",
		"mooring.yaml:2: listen.tls.client_ca_file: cannot be read: stat ca.pem",
		"mooring.yaml:4: workers.file: cannot be read: stat workers.yaml",
		"mooring.yaml:6: envoy.endpoints_file: ",
		"mooring.yaml:7: replication.key_file: short.key holds 15 bytes; a key has at least 16",
		"mooring.yaml:8: kvstate.records_dir: short.key is a file; name a directory",
	}
	if len(lines) != len(want) {
		t.Fatalf("got\n%s\nwant %d lines", err, len(want))
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("got %q, want it to begin with %q", lines[i], want[i])
		}
	}
}

func TestFilesThatAreThereAreFine(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"mooring.yaml": "workers: {file: workers.yaml}\nreplication: {key_file: mesh.key}\nkvstate: {records_dir: not there yet}", "workers.yaml": "", "mesh.key": "sixteen bytes...."} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "mooring.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckFiles(); err != nil {
		t.Error(err)
	}
}
