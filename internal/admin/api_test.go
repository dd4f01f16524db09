package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/go-json-experiment/json/jsontext"

	"mooring/affinity"
	"mooring/internal/admin"
	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/reconcile"
)

// TestAPI runs the scripts in testdata/api. Their commands:
//
//	route model=M group=G session=S        a request begins
//	release session=S                      it ends
//	advance by=DURATION
//	state worker=ID state=STATE            a worker changes its state
//	unready reason=TEXT
//	peers                                  two: one in step, one never reached
//	owners                                 three: ready, not ready, and not attached
//	request [local=ADDR]                   input: METHOD PATH, header lines, an empty line, a body
func TestAPI(t *testing.T) {
	scripts, err := filepath.Glob("testdata/api/*")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReplica(t, smallFleet(), affinity.Config{WriterID: 1<<64 - 1, MaxSessions: 4096})
				datadriven.RunTest(t, script, r.command)
			})
		})
	}
}

func (r *replica) command(t *testing.T, d *datadriven.TestData) string {
	arg := func(name string) (value string) {
		d.ScanArgs(t, name, &value)
		return value
	}
	switch d.Cmd {
	case "route":
		return "to " + r.route(arg("model"), arg("group"), arg("session")).Target.String()
	case "release":
		r.release(arg("session"))
	case "advance":
		by, err := time.ParseDuration(arg("by"))
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		time.Sleep(by)
	case "state":
		r.setState(arg("worker"), arg("state"))
	case "unready":
		r.ready.Ready, r.ready.Reasons, r.ready.Warnings = false, []string{arg("reason")}, []string{"a warning"}
	case "peers":
		r.peers = []admin.Peer{
			{
				Endpoint: "tcp://10.0.0.2:9092", ReplicaID: 1<<64 - 2, Connected: true, Heard: true, LastHeard: 1500 * time.Millisecond,
				Holes: 1<<64 - 1, ConvergedSince: time.Now(),
			},
			{Endpoint: "tcp://peer.example:9092"},
		}
		r.ready.Replication = "digest"
	case "owners":
		r.showOwners()
	case "request":
		local := "127.0.0.1:9090"
		d.MaybeScanArgs(t, "local", &local)
		return r.request(local, d.Input)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return ""
}

// showOwners makes both ranks of the first worker known, one of them ready.
func (r *replica) showOwners() {
	worker := r.live.View().Workers()[0]
	r.kv = map[kvstate.Worker]admin.KV{
		{WorkerID: uint64(worker.ID)}:            {State: "ready", Blocks: 1000},
		{WorkerID: uint64(worker.ID), DPRank: 1}: {State: "unknown", Reason: "endpoint_unreachable", Blocks: 20},
	}
	r.owners = []reconcile.OwnerReport{
		{Owner: strings.Repeat("0a", 16), Source: "config", Resolution: "ready", Reasons: []string{}, WorkerID: 1<<64 - 3, Barrier: 1, Cursor: 1<<64 - 1, Holed: true, Since: time.Now().UTC()},
		{
			Owner: strings.Repeat("0b", 16), Source: "directory", Resolution: "unknown", Reason: "status_mismatch", Reasons: []string{"status_mismatch", "recovery_behind_barrier"},
			Mismatches: []string{"generation"}, WorkerID: 7, DPRank: 1, Problem: "another generation", Since: time.Now().UTC(),
		},
		{Owner: strings.Repeat("0c", 16), Source: "directory", Resolution: "unavailable", Reason: "no_attachment", Reasons: []string{"no_attachment"}, Since: time.Now().UTC()},
	}
}

func (r *replica) setState(id, state string) {
	var workers []fleet.Worker
	for _, w := range r.live.View().Workers() {
		changed := *w
		for _, s := range fleet.States {
			if w.ID.String() == id && s.String() == state {
				changed.State, changed.Since = s, time.Now()
			}
		}
		workers = append(workers, changed)
	}
	r.live.Publish(fleet.NewView(workers))
}

// request reads a request as a server would and answers it with the handler.
func (r *replica) request(local, text string) string {
	head, body, _ := strings.Cut(text+"\n", "\n\n")
	body = expand(strings.TrimSuffix(body, "\n"))
	first, headers, _ := strings.Cut(strings.TrimSuffix(expand(head), "\n"), "\n")
	raw := first + " HTTP/1.1\n" + headers
	if !strings.Contains(headers, "Host:") {
		raw += "\nHost: 127.0.0.1:9090"
	}
	raw += fmt.Sprintf("\nContent-Length: %d\n\n%s", len(body), body)
	request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(raw, "HTTP/1.1\n\n", "HTTP/1.1\n"))))
	if err != nil {
		return "not HTTP: " + err.Error()
	}
	request = request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, net.Addr(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(local)))))
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, request)
	return show(w.Result(), w.Body.String())
}

// expand makes "<x*300>" 300 times x.
func expand(s string) string {
	before, rest, ok := strings.Cut(s, "<x*")
	if !ok {
		return s
	}
	times, after, _ := strings.Cut(rest, ">")
	n, err := strconv.Atoi(times)
	if err != nil {
		panic(err) // the script is wrong
	}
	return before + strings.Repeat("x", n) + after
}

func show(response *http.Response, body string) string {
	var out strings.Builder
	fmt.Fprintln(&out, response.StatusCode, response.Header.Get("Content-Type"))
	if allow := response.Header.Get("Allow"); allow != "" {
		fmt.Fprintln(&out, "Allow:", allow)
	}
	value := jsontext.Value(body)
	if err := value.Indent(jsontext.WithIndent("  ")); err == nil {
		body = string(value)
	}
	out.WriteString(strings.TrimSpace(body))
	return strings.TrimSpace(out.String())
}
