package envoyproc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func executable(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindPrefersWhatWasAskedFor(t *testing.T) {
	root := t.TempDir()
	inTools := executable(t, filepath.Join(root, toolPath))
	onPath := executable(t, filepath.Join(root, "bin", "envoy"))
	asked := executable(t, filepath.Join(root, "asked"))
	deep := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, env, path, dir, want string }{
		{"$ENVOY", asked, filepath.Dir(onPath), root, asked},
		{"PATH", "", filepath.Dir(onPath), root, onPath},
		{"the working directory", "", root, root, inTools},
		{"a directory above it", "", root, deep, inTools},
	}
	for _, tt := range tests {
		t.Setenv("PATH", tt.path)
		if got, err := find(tt.env, tt.dir); err != nil || got != tt.want {
			t.Errorf("%s: got %s, %v; want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestFindSaysHowToGetOne(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	for _, env := range []string{"", filepath.Join(empty, "gone")} {
		if got, err := find(env, empty); err == nil || !strings.Contains(err.Error(), "make test") {
			t.Errorf("$ENVOY %q: got %q, %v", env, got, err)
		}
	}
}
