package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// reconfigure restarts the replica with its configuration changed: old text, new
// text, and so on. Its sessions are lost.
func (s *stack) reconfigure(oldnew ...string) {
	s.t.Helper()
	path := filepath.Join(s.dir, "mooring.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	after := strings.NewReplacer(oldnew...).Replace(string(before))
	if after == string(before) {
		s.t.Fatalf("none of %q is in the configuration:\n%s", oldnew, before)
	}
	s.replica.kill()
	s.write("mooring.yaml", after)
	s.startReplica()
}

// moves is how many bindings have moved for a cause.
func (s *stack) moves(cause string) float64 {
	s.t.Helper()
	return s.series("mooring_session_moves_total", "cause", cause)
}

// series is the value of one series of the replica's metrics, which must exist.
func (s *stack) series(name, label, value string) float64 {
	s.t.Helper()
	resp, err := http.Get(s.admin + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), fmt.Sprintf("\n%s{%s=%q} ", name, label, value))
	number, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(number, 64)
	if !found || err != nil {
		s.t.Fatalf("no series %s{%s=%q}: %v", name, label, value, err)
	}
	return n
}

// restartWorker kills the i-th worker and starts it again at its address.
func (s *stack) restartWorker(i int, flags ...string) {
	s.t.Helper()
	old := s.workers[i]
	old.kill()
	fresh := s.startWorker(old.model, append(flags, "--listen", old.address)...)
	s.workers = s.workers[:len(s.workers)-1]
	s.workers[i] = fresh
}

// waitState waits until a worker is in a state.
func (s *stack) waitState(address, state string) {
	s.t.Helper()
	eventually(s.t, 20*time.Second, address+" is "+state, func() bool {
		return slices.ContainsFunc(s.adminWorkers(), func(w adminWorker) bool { return w.Address == address && w.State == state })
	})
}

// indexOf returns which of the stack's workers is at an address.
func (s *stack) indexOf(address string) int {
	s.t.Helper()
	i := slices.IndexFunc(s.workers, func(w *simWorker) bool { return w.address == address })
	if i < 0 {
		s.t.Fatalf("no worker at %q", address)
	}
	return i
}

// mustTurn says one more thing in a conversation, which must be answered.
func mustTurn(t *testing.T, s *stack, c *conversation) reply {
	t.Helper()
	r, err := c.turn(http1(), s.gateway, "and what then?")
	if err != nil || r.status != http.StatusOK {
		t.Fatalf("session %s turn %d: %v, status %d: %s", c.id, len(c.workers), err, r.status, r.body)
	}
	return r
}

// isGone checks that a turn is refused because the session's worker is gone.
func isGone(t *testing.T, s *stack, c *conversation) {
	t.Helper()
	r, err := c.turn(http1(), s.gateway, "are you there?")
	if err != nil || r.status != http.StatusServiceUnavailable {
		t.Fatalf("session %s: %v, status %d: %s; want 503", c.id, err, r.status, r.body)
	}
	var answer struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(r.body, &answer); err != nil || answer.Error.Code != "worker_gone" {
		t.Errorf("body %s: want code worker_gone", r.body)
	}
	if r.header.Get("Retry-After") == "" || r.header.Get("X-Mooring-Reason") != "worker_gone" {
		t.Errorf("retry-after %q, reason %q; want some, worker_gone", r.header.Get("Retry-After"), r.header.Get("X-Mooring-Reason"))
	}
}

func TestAGoneWorkersSessionRebindsOnceAndSaysSo(t *testing.T) {
	s := newStack(t, stackConfig{yaml: "session: {on_worker_gone: rebind, expose: true}"})
	c := &conversation{id: "moored", model: "sim"}
	var reasons []string
	turn := func() { reasons = append(reasons, mustTurn(t, s, c).header.Get("X-Mooring-Reason")) }
	turn()
	turn()
	s.workers[s.indexOf(c.workers[0])].kill()
	s.waitState(c.workers[0], "unhealthy")
	for range 4 {
		turn()
	}
	if want := []string{"new", "bound", "rebound", "bound", "bound", "bound"}; !slices.Equal(reasons, want) {
		t.Errorf("reasons are %v, want %v", reasons, want)
	}
	if c.workers[2] == c.workers[0] || slices.ContainsFunc(c.workers[2:], func(w string) bool { return w != c.workers[2] }) {
		t.Errorf("turns went to %v, want one move", c.workers)
	}
	if n := s.moves("worker_gone"); n != 1 {
		t.Errorf("%v moves because a worker had gone, want 1", n)
	}
}

func TestAGoneWorkersSessionFailsUntilItReturns(t *testing.T) {
	s := newStack(t, stackConfig{yaml: "session: {on_worker_gone: fail, expose: true}"})
	c := &conversation{id: "moored", model: "sim"}
	mustTurn(t, s, c)
	home := s.indexOf(c.workers[0])
	s.workers[home].kill()
	s.waitState(c.workers[0], "unhealthy")
	isGone(t, s, c)
	isGone(t, s, c)
	if n := s.series("mooring_session_refusals_total", "reason", "worker_gone"); n != 2 {
		t.Errorf("%v refusals are counted, want 2", n)
	}
	mustTurn(t, s, &conversation{id: "another", model: "sim"})
	s.restartWorker(home)
	s.waitState(c.workers[0], "active")
	if r := mustTurn(t, s, c); c.workers[1] != c.workers[0] || r.header.Get("X-Mooring-Reason") != "bound" {
		t.Errorf("turns went to %v, the last because %q; want it bound to the first", c.workers, r.header.Get("X-Mooring-Reason"))
	}
	if n := s.metric("mooring_session_moves_total"); n != 0 {
		t.Errorf("%v moves, want none", n)
	}
}

func TestAGoneWorkersSessionWaitsForItsReturn(t *testing.T) {
	s := newStack(t, stackConfig{yaml: "session: {on_worker_gone: wait, wait_for: 15s, expose: true}\nrequest: {deadline: 20s}"})
	c := &conversation{id: "moored", model: "sim"}
	mustTurn(t, s, c)
	home := s.indexOf(c.workers[0])
	s.workers[home].kill()
	s.waitState(c.workers[0], "unhealthy")
	replies := make(chan reply, 1)
	go func() {
		r, err := c.turn(http1(), s.gateway, "are you there?")
		if err != nil {
			t.Error(err)
		}
		replies <- r
	}()
	eventually(t, 10*time.Second, "the request waits", func() bool { return s.metric("mooring_session_waiters") == 1 })
	s.restartWorker(home)
	if r := <-replies; r.status != http.StatusOK || r.header.Get("X-Sim-Worker") != c.workers[0] || r.header.Get("X-Mooring-Reason") != "bound" {
		t.Errorf("after its return: status %d from %s because %q: %s", r.status, r.header.Get("X-Sim-Worker"), r.header.Get("X-Mooring-Reason"), r.body)
	}

	s.reconfigure("wait_for: 15s", "wait_for: 300ms")
	mustTurn(t, s, c)
	last := c.workers[len(c.workers)-1]
	s.workers[s.indexOf(last)].kill()
	s.waitState(last, "unhealthy")
	start := time.Now()
	isGone(t, s, c)
	if took := time.Since(start); took < 300*time.Millisecond || took > 10*time.Second {
		t.Errorf("refused after %v, want 300 ms", took)
	}
	if n := s.metric("mooring_session_moves_total"); n != 0 {
		t.Errorf("%v moves, want none", n)
	}
}

// TestOnlyAFirstRequestThatNeverArrivedUnbinds kills the worker behind Mooring's
// back: probes are rare, so that Envoy alone meets a closed port.
func TestOnlyAFirstRequestThatNeverArrivedUnbinds(t *testing.T) {
	s := newStack(t, stackConfig{models: []string{"sim"}})
	s.reconfigure("interval: 200ms", "interval: 30s", "unhealthy_after: 2", "unhealthy_after: 10")
	kept := &conversation{id: "kept", model: "sim"}
	mustTurn(t, s, kept)
	s.workers[0].kill()
	for _, id := range []string{"kept", "void"} {
		r, err := (&conversation{id: id, model: "sim"}).turn(http1(), s.gateway, "hello")
		if err != nil || r.status != http.StatusServiceUnavailable {
			t.Fatalf("session %s, worker dead: %v, status %d: %s; want Envoy's 503", id, err, r.status, r.body)
		}
	}
	eventually(t, 10*time.Second, "both ends are reported", func() bool {
		return s.series("mooring_session_endings_total", "cause", "never_sent") == 1 && s.metric("mooring_leases") == 0
	})
	if got := s.boundSessions(); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("bound are %q, want the session that had a worker before", got)
	}
	s.restartWorker(0)
	eventually(t, 10*time.Second, "the worker serves again", func() bool {
		r, err := kept.turn(http1(), s.gateway, "again")
		return err == nil && r.status == http.StatusOK
	})
	s.checkNothingLive()
}

// boundSessions lists the ids of all bound sessions.
func (s *stack) boundSessions() []string {
	s.t.Helper()
	var answer struct{ Sessions []struct{ Session string } }
	s.get("/v1/sessions", &answer)
	ids := make([]string, len(answer.Sessions))
	for i, e := range answer.Sessions {
		ids[i] = e.Session
	}
	return ids
}

// TestSessionIDsThroughEnvoy is B13 to B18 of cases.md: what a client sends, and
// what is bound by it.
func TestSessionIDsThroughEnvoy(t *testing.T) {
	s := newStack(t, stackConfig{})
	long := strings.Repeat("a", 256)
	tests := []struct {
		name   string
		header string
		values []string
		want   string // "": nothing is bound
		status int
	}{
		{"plain", "X-Session-ID", []string{"s1"}, "s1", 200},
		{"other letters", "x-SESSION-id", []string{"s1"}, "s1", 200},
		{"underscores name another header", "X_SESSION_ID", []string{"s1"}, "", 200},
		{"padded", "X-Session-Id", []string{"\t s1 "}, "s1", 200},
		{"absent", "X-Other", []string{"s1"}, "", 200},
		{"empty", "X-Session-Id", []string{""}, "", 200},
		{"spaces", "X-Session-Id", []string{"   "}, "", 200},
		{"a tab", "X-Session-Id", []string{"\t"}, "", 200},
		{"two values", "X-Session-Id", []string{"s1", "s2"}, "s1", 200},
		{"two values, the other way round", "X-Session-Id", []string{"s2", "s1"}, "s2", 200},
		{"a list in one value", "X-Session-Id", []string{"s1,s2"}, "s1,s2", 200},
		{"two equal values", "X-Session-Id", []string{"s1", "s1"}, "s1", 200},
		{"256 bytes", "X-Session-Id", []string{long}, long, 200},
		{"257 bytes", "X-Session-Id", []string{long + "a"}, "", 400},
		{"256 bytes in 128 letters", "X-Session-Id", []string{strings.Repeat("ü", 128)}, strings.Repeat("ü", 128), 200},
		{"257 bytes in 129 letters", "X-Session-Id", []string{strings.Repeat("ü", 128) + "a"}, "", 400},
		{"16 KB", "X-Session-Id", []string{strings.Repeat("x", 16<<10)}, "", 400},
		{"a four-byte letter", "X-Session-Id", []string{"🙂"}, "🙂", 200},
		{"not UTF-8", "X-Session-Id", []string{"\xff\xfea"}, "", 400},
	}
	for _, tt := range tests {
		for name, client := range map[string]*http.Client{"http1": http1(), "http2": http2()} {
			req, err := http.NewRequest(http.MethodPost, "http://"+s.gateway+"/v1/completions", strings.NewReader(`{"model":"sim","prompt":"x","max_tokens":1}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header[tt.header] = tt.values
			resp, err := client.Do(req)
			if err != nil {
				t.Errorf("%s, %s: %v", tt.name, name, err)
				continue
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Errorf("%s, %s: status %d, want %d", tt.name, name, resp.StatusCode, tt.status)
			}
			got := s.boundSessions()
			if len(got) > 1 || (len(got) == 1) != (tt.want != "") || len(got) == 1 && got[0] != tt.want {
				t.Errorf("%s, %s: bound are %q, want %q", tt.name, name, got, tt.want)
			}
			for _, id := range got {
				s.unpin(id)
			}
		}
	}
	if log := s.replica.log(); strings.Contains(log, "s1,s2") || strings.Contains(log, long) {
		t.Error("the log names sessions")
	}
}
