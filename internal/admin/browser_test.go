package admin_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/admin"
	"mooring/kvstate/reconcile"
)

// render opens a page in a real browser, lets its script run for three seconds of
// the browser's own time, and returns the document then and what the console said.
func render(t *testing.T, url string) (document string, console []string) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("the page is tested in a real browser: install the Debian package chromium (make test does), so that chromium is on PATH")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, chromium,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
		"--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom", url)
	cmd.Stdout, cmd.Stderr = &out, &log
	// The browser has children: if it must be stopped, they go too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, &log)
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, ":CONSOLE:") {
			console = append(console, line)
		}
	}
	return out.String(), console
}

func TestPageInABrowser(t *testing.T) {
	const hostile = `<img src=x onerror="document.title='owned'">`
	r := newReplica(t, smallFleet(), affinity.Config{})
	r.ready.Warnings = []string{"a warning <b>"}
	r.showOwners()
	for i := range 120 {
		r.owners = append(r.owners, reconcile.OwnerReport{Owner: fmt.Sprintf("0d%030x", i), Source: "config", Resolution: "ready", WorkerID: 7, Problem: hostile})
	}
	r.peers = []admin.Peer{
		{Endpoint: "tcp://10.0.0.2:9092", ReplicaID: 1<<64 - 2, Connected: true, Heard: true, ConvergedSince: time.Now()},
		{Endpoint: "tcp://peer.example:9092"},
	}
	r.route(llama, "default", "alpha")
	r.route(llama, "default", hostile)
	r.release(hostile)
	address, _, _ := serve(t, r.handler)
	document, console := render(t, "http://"+address+"/")
	for _, line := range console {
		t.Errorf("the console says %s", line)
	}
	for _, want := range []string{
		`data-state="ready">Ready<`, "<title>Ready · Mooring</title>",
		">10.0.0.7:8000<", ">[fd00::8]:8000<", ">18446744073709551557<", ">vllm-0:8000 <", "sql-lora (adapter)", ">unhealthy<",
		">alpha<", `>&lt;img src=x onerror="document.title='owned'"&gt;<`, "1 to 2 of 2",
		">a warning &lt;b&gt;<", ">18446744073709551614</button>", ">in step<", ">tcp://peer.example:9092<", ">not connected<", "replica 18446744073709551533 · v1.2.3", ">new</code>",
		">1,020<", `data-state="unknown"></span><span>unknown</span><div class="fine">its publisher cannot be reached<`,
		"2 of 123 not ready; the first 100 are shown, 23 more are at /v1/projection", ">0b0b0b0b…</button>", ">another generation<", ">18446744073709551613<",
		">its records and its agent's status differ (generation); what was recovered has not reached the barrier<",
		">no engine is attached<", ">holed<", ">18446744073709551615<", `class="fine">&lt;img src=x onerror="document.title='owned'"&gt;<`,
	} {
		if !strings.Contains(document, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	inOrder(t, document, ">0b0b0b0b…<", ">0c0c0c0c…<", ">0a0a0a0a…<", ">0d000000…<")
	if n := strings.Count(document, ">0d000000…<"); n != 97 {
		t.Errorf("%d ready owners are shown, want 97", n)
	}
	for _, hidden := range []string{`class="cards no-kv"`, `aria-labelledby="owners-title" hidden`} {
		if strings.Contains(document, hidden) {
			t.Errorf("the page has %s", hidden)
		}
	}
	if t.Failed() {
		_, main, _ := strings.Cut(document, "</style>")
		t.Logf("the document:\n%.8000s", main)
	}
}

// inOrder requires that each of parts begins after the one before it.
func inOrder(t *testing.T, document string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		_, after, found := strings.Cut(document, part)
		if !found {
			t.Errorf("the page lacks %s, or has it too early", part)
			return
		}
		document = after
	}
}

// TestPageWithoutAnything: what a person sees first says what to do next.
func TestPageWithoutAnything(t *testing.T) {
	r := newReplica(t, nil, affinity.Config{})
	address, _, _ := serve(t, r.handler)
	document, console := render(t, "http://"+address+"/")
	for _, line := range console {
		t.Errorf("the console says %s", line)
	}
	for _, want := range []string{"No worker yet", "workers:\n  static:", "No request yet", "extproc envoy", "No session is moored yet", "curl http://", `class="cards no-kv"`, `aria-labelledby="owners-title" hidden`} {
		if !strings.Contains(document, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestRenderHearsTheConsole: the tests above would miss errors if the browser
// told them in another form than render reads.
func TestRenderHearsTheConsole(t *testing.T) {
	address, _, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte(`<!doctype html><link rel="icon" href="data:,"><script>nobody.there()</script>`))
	}))
	if _, console := render(t, "http://"+address+"/"); len(console) != 1 || !strings.Contains(console[0], "nobody is not defined") {
		t.Errorf("the console says %q, want one error about nobody", console)
	}
}
