package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// sessions runs `extproc sessions` as an operator would, and returns what it
// printed and its exit code.
func (s *stack) sessions(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	cmd := exec.Command(binary, append([]string{"sessions", "--admin", s.admin}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// mustSessions is sessions for a command that must succeed.
func (s *stack) mustSessions(args ...string) string {
	s.t.Helper()
	stdout, stderr, code := s.sessions(args...)
	if code != 0 {
		s.t.Fatalf("extproc sessions %q: exit code %d: %s", args, code, stderr)
	}
	return stdout
}

// call sends one request to the path of a session of model sim.
func (s *stack) call(method, id, body string) (status int, answer string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.admin+"/v1/sessions/sim/default/"+url.PathEscape(id), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (s *stack) unpin(id string) {
	s.t.Helper()
	if status, answer := s.call(http.MethodDelete, id, ""); status != http.StatusNoContent {
		s.t.Errorf("DELETE %q: status %d: %s", id, status, answer)
	}
}

// newRankedStack has three workers of two ranks each.
func newRankedStack(t *testing.T) *stack {
	t.Helper()
	s := newStack(t, stackConfig{workerFlags: []string{"--ranks", "2"}, yaml: "session: {expose: true}"})
	var b strings.Builder
	for _, w := range s.workers {
		fmt.Fprintf(&b, "- {address: %q, models: [sim], ranks: 2}\n", w.address)
	}
	s.replica.kill() // a worker whose ranks change is another one
	s.write("workers.yaml", b.String())
	s.startReplica()
	return s
}

// TestPinnedSessionsNextTurnGoesThere pins by both ways that operators have, to
// each rank in turn, and looks where the next turn was served.
func TestPinnedSessionsNextTurnGoesThere(t *testing.T) {
	s := newRankedStack(t)
	c := &conversation{id: "moored / ünder ?", model: "sim"}
	mustTurn(t, s, c)
	pins := 0
	for _, w := range s.adminWorkers() {
		for rank := range 2 {
			target := fmt.Sprintf("%s:%d", w.Address, rank)
			if rank == 0 {
				s.mustSessions("pin", c.id, target)
			} else if status, answer := s.call(http.MethodPut, c.id, fmt.Sprintf(`{"target":"%s:%d"}`, w.ID, rank)); status != http.StatusOK {
				t.Fatalf("PUT: status %d: %s", status, answer)
			}
			pins++
			for range 2 {
				r := mustTurn(t, s, c)
				if got := r.header.Get("X-Sim-Worker") + ":" + r.header.Get("X-Sim-Rank"); got != target || r.header.Get("X-Mooring-Reason") != "bound" {
					t.Errorf("pinned to %s: served at %s because %q", target, got, r.header.Get("X-Mooring-Reason"))
				}
			}
			if got := s.mustSessions("get", c.id); !strings.Contains(got, w.Address) {
				t.Errorf("pinned to %s: get says %s", target, got)
			}
		}
	}
	// The first pin may have been to where the session was.
	if n := s.moves("pin"); n != float64(pins) && n != float64(pins-1) {
		t.Errorf("%v moves by pin, want %d or one less", n, pins)
	}
	s.checkNothingLive()
}

// TestOperatorsPinBeforeTheFirstTurn: a session nobody has seen can be pinned,
// and unpinning makes it new again.
func TestOperatorsPinBeforeTheFirstTurn(t *testing.T) {
	s := newRankedStack(t)
	workers := s.adminWorkers()
	c := &conversation{id: "soon", model: "sim"}
	s.mustSessions("pin", "soon", workers[2].ID)
	if r := mustTurn(t, s, c); c.workers[0] != workers[2].Address || r.header.Get("X-Mooring-Reason") != "bound" {
		t.Errorf("the first turn went to %v because %q", c.workers, r.header.Get("X-Mooring-Reason"))
	}
	if got := s.mustSessions("unpin", "soon"); strings.TrimSpace(got) != "unpinned" {
		t.Errorf("unpin says %q", got)
	}
	if _, stderr, code := s.sessions("get", "soon"); code == 0 || !strings.Contains(stderr, "not bound") {
		t.Errorf("get after unpin: exit code %d: %s", code, stderr)
	}
	if status, _ := s.call(http.MethodDelete, "soon", ""); status != http.StatusNotFound {
		t.Errorf("a second unpin: status %d, want 404", status)
	}
	if r := mustTurn(t, s, c); r.header.Get("X-Mooring-Reason") != "new" {
		t.Errorf("the turn after unpin: reason %q, want new", r.header.Get("X-Mooring-Reason"))
	}
	if n := s.series("mooring_session_endings_total", "cause", "unpinned"); n != 1 {
		t.Errorf("%v sessions were unpinned by the metric, want 1", n)
	}
}

func TestAPinToWhatDoesNotExistListsWhatDoes(t *testing.T) {
	s := newRankedStack(t)
	workers := s.adminWorkers()
	for _, target := range []string{"12345", "10.9.9.9:8000", workers[0].ID + ":2", workers[0].Address + ":7"} {
		_, stderr, code := s.sessions("pin", "s", target)
		status, answer := s.call(http.MethodPut, "s", fmt.Sprintf(`{"target":%q}`, target))
		if code == 0 || status < 400 || status >= 500 {
			t.Errorf("%s: exit code %d, status %d; want a refusal", target, code, status)
		}
		wanted := []string{"ranks 0 to 1"}
		if !strings.HasPrefix(target, workers[0].ID) && !strings.HasPrefix(target, workers[0].Address) {
			for _, w := range workers {
				wanted = append(wanted, w.ID, w.Address)
			}
		}
		for _, want := range wanted {
			if !strings.Contains(stderr, want) || !strings.Contains(answer, want) {
				t.Errorf("%s: neither list may lack %q:\n%s\n%s", target, want, stderr, answer)
			}
		}
	}
	if got := s.boundSessions(); len(got) != 0 {
		t.Errorf("a refused pin bound %q", got)
	}
}

// TestListedSessionsAreThoseThatConversed lists by command and by worker.
func TestListedSessionsAreThoseThatConversed(t *testing.T) {
	s := newStack(t, stackConfig{})
	sessions := newConversations("l", "sim", 40)
	converse(t, http1(), s.gateway, sessions, 1)
	want := make(map[string][]string)
	for _, c := range sessions {
		want[""] = append(want[""], c.id)
		want[c.workers[0]] = append(want[c.workers[0]], c.id)
	}
	for worker, ids := range want {
		slices.Sort(ids)
		args := []string{"list", "--output", "json"}
		if worker != "" {
			args = append(args, "--worker", worker)
		}
		var answer struct {
			Sessions []struct{ Session, Address string }
		}
		if err := json.Unmarshal([]byte(s.mustSessions(args...)), &answer); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range answer.Sessions {
			got = append(got, e.Session)
			if worker != "" && e.Address != worker {
				t.Errorf("of %s: %s is at %s", worker, e.Session, e.Address)
			}
		}
		if !slices.Equal(got, ids) {
			t.Errorf("of %q: listed %q, want %q", worker, got, ids)
		}
	}
	var paged []string
	for after := ""; ; {
		var page struct {
			Sessions []struct{ Session string }
			Next     string
		}
		s.get("/v1/sessions?limit=7&after="+url.QueryEscape(after), &page)
		for _, e := range page.Sessions {
			paged = append(paged, e.Session)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if !slices.Equal(paged, want[""]) {
		t.Errorf("by pages of 7: %q", paged)
	}
}
