package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/affinity"
	"mooring/internal/admin"
	"mooring/internal/fleet"
	"mooring/routing"
)

// adminAPI serves the admin API of a small fleet.
func adminAPI(t *testing.T, workers ...fleet.Worker) string {
	t.Helper()
	live := fleet.NewLive(fleet.NewView(workers))
	sessions, err := affinity.NewResolver(live, affinity.Config{WriterID: 1})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(admin.Handler(admin.Config{
		Fleet: live, Sessions: sessions, Router: routing.NewRouter(live, sessions, routing.Config{}),
		Ready: func() admin.Readiness { return admin.Readiness{Ready: true} }, Gatherer: prometheus.NewRegistry(),
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func servingWorker(id fleet.WorkerID, model, group string) fleet.Worker {
	return fleet.Worker{ID: id, Address: fmt.Sprintf("10.0.0.%d:8000", id), Models: []string{model}, Adapters: []string{model + "-lora"}, Group: group, Ranks: 2, State: fleet.Active}
}

// sessionsRun runs a command line and returns what it printed and its error.
func sessionsRun(args ...string) (out, errOut string, err error) {
	var o, e bytes.Buffer
	cmd := sessionsCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(context.Background())
	return o.String(), e.String(), err
}

func TestSessionsThroughAWholeLife(t *testing.T) {
	api := adminAPI(t, servingWorker(7, "org/llama", "default"))
	steps := []struct{ args, want string }{
		{"list", "SESSION  MODEL  GROUP  WORKER  RANK  ADDRESS  RUNNING  IDLE\n"},
		{"pin a/b%2F 10.0.0.7:8000:1", "" +
			"SESSION  MODEL      GROUP    WORKER  RANK  ADDRESS        RUNNING  IDLE\n" +
			"a/b%2F   org/llama  default  7       1     10.0.0.7:8000  0        0s\n"},
		{"pin .. 7", "" +
			"SESSION  MODEL      GROUP    WORKER  RANK  ADDRESS        RUNNING  IDLE\n" +
			"..       org/llama  default  7       -     10.0.0.7:8000  0        0s\n"},
		{"list", "" +
			"SESSION  MODEL      GROUP    WORKER  RANK  ADDRESS        RUNNING  IDLE\n" +
			"..       org/llama  default  7       -     10.0.0.7:8000  0        0s\n" +
			"a/b%2F   org/llama  default  7       1     10.0.0.7:8000  0        0s\n"},
		{"get a/b%2F --model org/llama-lora", "" +
			"SESSION  MODEL      GROUP    WORKER  RANK  ADDRESS        RUNNING  IDLE\n" +
			"a/b%2F   org/llama  default  7       1     10.0.0.7:8000  0        0s\n"},
		{"list --worker 8", "SESSION  MODEL  GROUP  WORKER  RANK  ADDRESS  RUNNING  IDLE\n"},
		{"unpin ..", "unpinned\n"},
		{"unpin a/b%2F --output json", ""},
		{"list --output json", "{\"sessions\":[]}\n"},
	}
	for _, step := range steps {
		out, errOut, err := sessionsRun(append(strings.Fields(step.args), "--admin", api)...)
		if out != step.want || errOut != "" || err != nil {
			t.Errorf("sessions %s: %v %s\ngot:\n%swant:\n%s", step.args, err, errOut, out, step.want)
		}
	}
}

func TestSessionsAsJSONKeepEveryBit(t *testing.T) {
	const id = 18446744073709551557
	w := servingWorker(7, "llama", "default")
	w.ID = id
	api := adminAPI(t, w)
	for _, args := range [][]string{{"pin", "s", "18446744073709551557"}, {"get", "s"}, {"list"}} {
		out, _, err := sessionsRun(append(args, "--output", "json", "--admin", api)...)
		if !strings.Contains(out, `"worker_id":"18446744073709551557"`) || !strings.HasSuffix(out, "}\n") || err != nil {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
}

func TestSessionsListPagesThroughEverythingUpToTheLimit(t *testing.T) {
	const all = 25_000
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		var limit, after int
		fmt.Sscan(r.FormValue("limit"), &limit)
		fmt.Sscan(r.FormValue("after"), &after)
		next := ""
		if after+limit < all {
			next = fmt.Sprint(after + limit)
		}
		fmt.Fprint(w, `{"sessions":[`)
		for i := after; i < min(after+limit, all); i++ {
			fmt.Fprintf(w, `%s{"session":"s%d"}`, strings.Repeat(",", min(1, i-after)), i)
		}
		fmt.Fprintf(w, `],"next":%q}`, next)
	}))
	defer api.Close()
	for _, tt := range []struct {
		limit, want, pages int
		note               string
	}{
		{100_000, all, 3, ""},
		{12_000, 12_000, 2, "extproc: these are the first 12000; more with a higher --limit\n"},
		{1, 1, 1, "extproc: these are the first 1; more with a higher --limit\n"},
	} {
		asked = nil
		out, errOut, err := sessionsRun("list", "--admin", api.URL, "--limit", fmt.Sprint(tt.limit))
		if got := strings.Count(out, "\n") - 1; got != tt.want || len(asked) != tt.pages || errOut != tt.note || err != nil {
			t.Errorf("limit %d: %d sessions by %v, %q, %v", tt.limit, got, asked, errOut, err)
		}
	}
}

func TestSessionsSayWhatIsWrong(t *testing.T) {
	api := adminAPI(t, servingWorker(7, "llama", "default"), servingWorker(8, "llama", "batch"), servingWorker(9, "qwen", "batch"))
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	tests := []struct {
		args, want string
		usage      bool
	}{
		{"get s", "the replica has 3 pairs of model and group; name the session's:\n  --model llama --group batch\n  --model llama --group default\n  --model qwen --group batch", false},
		{"get s --group default", `this session is not bound in model "llama", group "default"`, false},
		{"unpin s --model qwen", `this session is not bound in model "qwen", group "batch"`, false},
		{"get s --model gpt", "the replica has no worker of this model and group; name the session's --model and --group if it had one", false},
		{"get s --model gpt --group g", `nobody serves model "gpt" in group "g"; there is model "llama" in group "batch", model "qwen" in group "batch", model "llama" in group "default"`, false},
		{"pin s 1 --model qwen", `no worker 1 serves model "qwen" in group "batch"; there is 9 (10.0.0.9:8000, active, ranks 0 to 1)`, false},
		{"list --worker nobody", `target "nobody": want worker_id[:rank], ip:port[:rank] or [v6]:port[:rank]`, false},
		{"list --admin " + other.URL, other.URL + " answered 404 Not Found and is no admin API of Mooring", false},
		{"get secret --model m --group g --admin " + gone.URL, "cannot reach the replica at " + gone.URL + " (see --admin): dial tcp " + strings.TrimPrefix(gone.URL, "http://") + ": connect: connection refused", false},
		{"list --admin 127.0.0.1:9090", `--admin "127.0.0.1:9090": want a URL like http://127.0.0.1:9090`, true},
		{"list --output xml", `--output "xml": want table or json`, true},
		{"list --limit 0", "--limit 0: want at least 1", true},
		{"", "sessions needs one of list, get ID, pin ID TARGET, unpin ID", true},
	}
	for _, tt := range tests {
		args := strings.Fields(tt.args)
		if !strings.Contains(tt.args, "--admin") {
			args = append(args, "--admin", api)
		}
		out, _, err := sessionsRun(args...)
		var usage usageError
		if err == nil || err.Error() != tt.want || errors.As(err, &usage) != tt.usage || out != "" {
			t.Errorf("sessions %s: %v\nwant %s (usage: %v)", tt.args, err, tt.want, tt.usage)
		}
	}
}

func TestPrintableQuotesWhatATerminalWouldObey(t *testing.T) {
	for text, want := range map[string]string{
		"plain-id": "plain-id", "mit Umlaut ü ☃": "mit Umlaut ü ☃",
		"\x01sg:ab": `"\x01sg:ab"`, "a\x1b[2J": `"a\x1b[2J"`, "a\tb": `"a\tb"`, "a\u202eb": `"a\u202eb"`, "a\nb": `"a\nb"`,
	} {
		if got := printable(text); got != want {
			t.Errorf("printable(%q) = %s, want %s", text, got, want)
		}
	}
}
