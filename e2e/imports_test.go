package e2e

import (
	"bufio"
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport is the import graph of the project: what each package may import
// from this module. A package that is missing here may not exist.
var mayImport = map[string][]string{
	"internal/fleet":              {},
	"internal/agenda":             {},
	"internal/zmqsock":            {},
	"replication":                 {"affinity", "internal/fleet", "internal/zmqsock"},
	"replication/replicationtest": {"replication"},
	"internal/simworker":          {"kvstate", "kvstate/blockhash", "internal/zmqsock", "internal/fleet"},
	"internal/envoyproc":          {},
	"internal/config":             {"internal/fleet"},
	"internal/discovery":          {"internal/agenda", "internal/fleet"},
	"affinity":                    {"internal/fleet"},
	"envoy":                       {"internal/fleet"},
	"kvstate":                     {"internal/fleet"},
	"kvstate/blockhash":           {},
	"kvstate/index":               {"kvstate", "internal/fleet"},
	"kvstate/feed":                {"kvstate", "kvstate/blockhash", "kvstate/index", "internal/zmqsock", "internal/fleet"},
	"kvstate/reconcile":           {"kvstate", "kvstate/blockhash", "kvstate/feed", "kvstate/index", "internal/agenda", "internal/zmqsock", "internal/fleet"},
	"internal/tokenizer":          {},
	"internal/benchhit":           {}, // tests only: it simulates whole fleets with the real router
	"routing":                     {"affinity", "kvstate", "kvstate/blockhash", "kvstate/index", "internal/tokenizer", "internal/fleet"},
	"extproc":                     {"routing", "affinity", "internal/fleet"}, // affinity for the outcome that a lease is released with
	"internal/admin":              {"routing", "affinity", "kvstate", "kvstate/reconcile", "internal/fleet"},
	"cmd/extproc": {
		"extproc", "envoy", "routing", "affinity", "internal/fleet", "internal/discovery", "internal/admin", "internal/config",
		"internal/simworker", "internal/envoyproc", "replication", "internal/tokenizer", "kvstate", "kvstate/index", "kvstate/reconcile",
	},
	"e2e": {},
}

// onlyIn says which packages may import a third-party module, by import prefix.
var onlyIn = map[string][]string{
	"google.golang.org/grpc":                 {"extproc", "envoy", "cmd/extproc", "e2e"},
	"google.golang.org/protobuf":             {"extproc", "envoy", "cmd/extproc", "e2e"},
	"github.com/envoyproxy/go-control-plane": {"extproc", "envoy", "cmd/extproc", "e2e"},
	"github.com/go-zeromq/zmq4":              {"internal/zmqsock"},
	"go.opentelemetry.io/otel/sdk":           {"cmd/extproc"},
	"go.opentelemetry.io/otel/exporters":     {"cmd/extproc"},
	"github.com/spf13/cobra":                 {"cmd/extproc"},
	"github.com/spf13/pflag":                 {"cmd/extproc"},
	"go.yaml.in/yaml":                        {"internal/config", "envoy"},
	"github.com/go-json-experiment/json":     {"routing", "kvstate", "internal/tokenizer", "internal/admin", "internal/simworker", "cmd/extproc"},
	"github.com/fsnotify/fsnotify":           {"internal/config", "kvstate/reconcile"},
	"github.com/prometheus/client_golang": {
		"affinity", "replication", "kvstate/index", "kvstate/feed", "kvstate/reconcile", "envoy", "extproc", "routing",
		"internal/admin", "internal/discovery", "internal/simworker", "internal/tokenizer", "cmd/extproc",
	},
	"github.com/cockroachdb/datadriven": {},
	"github.com/rogpeppe/go-internal":   {},
	"go.uber.org/goleak":                {},
	"github.com/google/go-cmp":          {},
	"github.com/klauspost/compress":     {"routing"},
	"github.com/andybalholm/brotli":     {"routing"},
	"github.com/zeebo/blake3":           {"affinity", "kvstate"},
	"github.com/zeebo/xxh3":             {"kvstate/blockhash", "kvstate/feed"},
	"github.com/tinylib/msgp":           {"kvstate", "kvstate/feed", "internal/simworker"},
	"golang.org/x/sync":                 {"cmd/extproc", "internal/discovery"},
	"golang.org/x/net":                  {"internal/admin"},
}

func TestImportsFollowTheGraph(t *testing.T) {
	for pkg, imports := range directImports(t) {
		allowed, known := mayImport[pkg]
		if !known {
			t.Errorf("package %s is not in the import graph: add it with its reason, or put its code where it belongs", pkg)
			continue
		}
		for _, imported := range imports {
			if own, ok := strings.CutPrefix(imported, "mooring/"); ok {
				if !slices.Contains(allowed, own) {
					t.Errorf("%s imports %s: the graph has no such edge", pkg, own)
				}
				continue
			}
			for prefix, users := range onlyIn {
				if strings.HasPrefix(imported, prefix) && !slices.Contains(users, pkg) {
					t.Errorf("%s imports %s, which is for %v only", pkg, imported, users)
				}
			}
			if pkg == "internal/fleet" && strings.Contains(imported, ".") {
				t.Errorf("%s imports %s: it may import the standard library only", pkg, imported)
			}
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	out := goList(t, `{{.ImportPath}}{{"\t"}}{{.Doc}}`)
	for line := range strings.Lines(out) {
		pkg, doc, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if doc == "" && pkg != "mooring/e2e" { // e2e has tests only, whose comments go list does not show
			t.Errorf("%s has no package comment", pkg)
		}
	}
}

// directImports returns what each package of the module imports outside tests.
func directImports(t *testing.T) map[string][]string {
	t.Helper()
	found := make(map[string][]string)
	scanner := bufio.NewScanner(bytes.NewBufferString(goList(t, `{{.ImportPath}}{{"\t"}}{{join .Imports ","}}`)))
	for scanner.Scan() {
		pkg, imports, _ := strings.Cut(scanner.Text(), "\t")
		found[strings.TrimPrefix(pkg, "mooring/")] = strings.Split(imports, ",")
	}
	if len(found) < 3 {
		t.Fatalf("go list found %d packages", len(found))
	}
	return found
}

func goList(t *testing.T, format string) string {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", format, "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return string(out)
}
