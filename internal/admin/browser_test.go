package admin_test

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/admin"
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
	} {
		if !strings.Contains(document, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if t.Failed() {
		_, main, _ := strings.Cut(document, "</style>")
		t.Logf("the document:\n%.8000s", main)
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
	for _, want := range []string{"No worker yet", "workers:\n  static:", "No request yet", "extproc envoy", "No session is moored yet", "curl http://"} {
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
