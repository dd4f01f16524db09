package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mooring/internal/fleet"
)

func TestLoadTakesPathsFromTheFilesDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	must(t, os.Mkdir("conf", 0o700))
	put(t, "conf/mooring.yaml", `
listen: {tls: {cert_file: tls/cert.pem, key_file: /abs/key.pem}}
workers: {file: ../workers.yaml}
replication: {key_file: key}
kvstate: {records_dir: .}
`)
	c, err := Load("conf/mooring.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, 0, 7)
	for _, file := range c.files() {
		got = append(got, strings.TrimPrefix(*file, dir))
	}
	want := []string{"/conf/tls/cert.pem", "/abs/key.pem", "", "/workers.yaml", "/conf/key", "/conf", "/conf/" + DefaultEndpointsFile}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := LoadWorkers(filepath.Join(dir, "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing workers file: %v", err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("a directory was loaded")
	}
	path := filepath.Join(dir, "f.yaml")
	put(t, path, "x: 1")
	if _, err := Load(path); !strings.HasPrefix(err.Error(), path+":1: x: is no key; ") {
		t.Errorf("bad file: %v", err)
	}
}

func TestMergeWorkers(t *testing.T) {
	list := func(name, text string) []WorkerSpec {
		t.Helper()
		workers, err := ParseWorkers(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return workers
	}
	static := list("m.yaml", "- {address: a:1, id: 7}\n- {address: b:1}")
	all, err := MergeWorkers(static, list("w.yaml", "- {address: c:1}"))
	if err != nil || len(all) != 3 || all[2].Address != "c:1" {
		t.Errorf("%v, %v", all, err)
	}
	_, err = MergeWorkers(static, list("w.yaml", "- {address: c:1, id: 7}\n- {address: B:1}"))
	want := "w.yaml:1: worker c:1 has the id 7 of worker a:1 at m.yaml:1; give each its own, or leave ids out\n" +
		"w.yaml:2: worker B:1 is listed already at m.yaml:2; list each address once"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestWorkerID(t *testing.T) {
	if w := (WorkerSpec{Address: "a:1", ID: 7}); w.WorkerID() != 7 {
		t.Errorf("configured id: %s", w.WorkerID())
	}
	workers, err := ParseWorkers("w.yaml", []byte(`[{address: "[::ffff:10.0.0.7]:08000"}]`))
	must(t, err)
	if got, want := workers[0].WorkerID(), fleet.DeriveWorkerID("10.0.0.7:8000"); got != want {
		t.Errorf("two spellings of one address give ids %s and %s", got, want)
	}
}

// Every key but the live ones is named when it changes, and nothing else is.
func TestNeedRestart(t *testing.T) {
	if keys := NeedRestart(Default(), Default()); len(keys) != 0 {
		t.Errorf("no change: %v", keys)
	}
	moved := mustParse(t, strings.Join([]string{
		"# the same, in other lines", "session: {ttl: 30m}", "workers: {static: [{address: a:1}], health: {path: /other, interval: 3s}}",
	}, "\n"))
	if keys := NeedRestart(Default(), moved); len(keys) != 0 {
		t.Errorf("live changes: %v", keys)
	}
	changed := mustParse(t, `
telemetry: {service_name: x}
session: {headers: [x-a], ttl: 31m}
listen: {admin: ":1"}
workers: {file: w.yaml, grace: 1s}
`)
	want := []string{"listen.admin", "session.headers", "session.ttl", "workers.file", "workers.grace", "telemetry.service_name"}
	if keys := NeedRestart(Default(), changed); !slices.Equal(keys, want) {
		t.Errorf("got %v, want %v", keys, want)
	}
}

func TestSizeSpelling(t *testing.T) {
	for size, want := range map[Size]string{0: "0", 1: "1", 1023: "1023", KiB: "1KiB", 1536: "1536", 16 * MiB: "16MiB", GiB: "1GiB", -KiB: "-1KiB"} {
		if got := size.String(); got != want {
			t.Errorf("%d: %s, want %s", int64(size), got, want)
		}
	}
	for _, s := range []string{"", "KiB", "1kib", "1 MB", "-1", "1.5MiB", "0x10", "1_000"} {
		if size, ok := parseSize(s); ok {
			t.Errorf("%q is taken for %d", s, size)
		}
	}
}
