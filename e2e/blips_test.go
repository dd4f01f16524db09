package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// keep checks that each conversation's turns all went to its first one's worker.
func keep(t *testing.T, when string, sessions []*conversation) {
	t.Helper()
	for _, c := range sessions {
		for n, w := range c.workers {
			if w != c.workers[0] {
				t.Errorf("%s: session %s moved from %s to %s at turn %d", when, c.id, c.workers[0], w, n)
			}
		}
	}
}

// TestDiscoveryThatSaysTooMuchMovesNoSession empties the workers file, then has
// it forget most of the workers, then list them in another order.
func TestDiscoveryThatSaysTooMuchMovesNoSession(t *testing.T) {
	s := newStack(t, stackConfig{})
	s.reconfigure("grace: 5s", "grace: 2m")
	client := http1()
	sessions := newConversations("blip", "sim", 30)
	converse(t, client, s.gateway, sessions, 1)
	all := s.workers
	turn := func(when string, listed []*simWorker, doubted int) {
		t.Helper()
		s.workers = listed
		s.writeWorkers()
		s.workers = all
		if len(listed) == 0 {
			s.write("workers.yaml", "[]\n")
		}
		eventually(t, 10*time.Second, fmt.Sprintf("%s: %d workers doubted", when, doubted), func() bool {
			marked := 0
			for _, w := range s.adminWorkers() {
				if w.Doubted {
					marked++
				}
			}
			return s.metric("mooring_workers_doubted") == float64(doubted) && marked == doubted
		})
		workers := s.adminWorkers()
		if len(workers) < len(all) || slices.ContainsFunc(workers, func(w adminWorker) bool { return w.State != "active" }) {
			t.Errorf("%s: workers are %+v, want all active", when, workers)
		}
		converse(t, client, s.gateway, sessions, 1)
		keep(t, when, sessions)
	}
	turn("an empty file", nil, 3)
	turn("all are back", all, 0)
	turn("most are missing", all[1:2], 2)
	turn("another order", []*simWorker{all[2], all[0], all[1]}, 0)

	unrelated := s.startWorker("other")
	all = s.workers
	s.writeWorkers()
	s.waitState(unrelated.address, "active")
	turn("an unrelated worker more", []*simWorker{unrelated, all[1], all[2], all[0]}, 0)
	if n := s.metric("mooring_session_moves_total"); n != 0 {
		t.Errorf("%v moves, want none", n)
	}
	if n := s.metric("mooring_bindings"); n != 30 {
		t.Errorf("%v bindings, want 30", n)
	}
}

// TestAFlappingWorkerMovesEachSessionOnceAtMost is B49 of cases.md.
func TestAFlappingWorkerMovesEachSessionOnceAtMost(t *testing.T) {
	s := newStack(t, stackConfig{})
	client := http1()
	sessions := newConversations("flap", "sim", 30)
	converse(t, client, s.gateway, sessions, 1)
	address := s.workers[0].address
	for range 3 {
		s.workers[0].kill()
		s.waitState(address, "unhealthy")
		converse(t, client, s.gateway, sessions, 1)
		s.restartWorker(0)
		s.waitState(address, "active")
		converse(t, client, s.gateway, sessions, 1)
	}
	moved := 0
	for _, c := range sessions {
		changes := 0
		for n := 1; n < len(c.workers); n++ {
			if c.workers[n] != c.workers[n-1] {
				changes++
			}
		}
		if changes > 1 || changes == 1 && c.workers[0] != address {
			t.Errorf("session %s went to %v", c.id, c.workers)
		}
		moved += changes
	}
	if moved == 0 || s.metric("mooring_session_moves_total") != float64(moved) {
		t.Errorf("%d sessions moved, %v moves are counted", moved, s.metric("mooring_session_moves_total"))
	}
}

// TestAReplacedWorkersSessionsRebindOnce is B35 and B48 of cases.md.
func TestAReplacedWorkersSessionsRebindOnce(t *testing.T) {
	s := newStack(t, stackConfig{})
	client := http1()
	sessions := newConversations("r", "sim", 30)
	converse(t, client, s.gateway, sessions, 1)
	gone := s.workers[0]
	gone.kill()
	s.workers = s.workers[1:]
	fresh := s.startWorker("sim")
	s.writeWorkers()
	s.waitState(gone.address, "vanished")
	s.waitState(fresh.address, "active")
	converse(t, client, s.gateway, sessions, 4)
	moved := 0
	for _, c := range sessions {
		if c.workers[0] == gone.address {
			moved++
			keep(t, "after the replacement", []*conversation{{id: c.id, workers: c.workers[1:]}})
		} else {
			keep(t, "its worker lives", []*conversation{c})
		}
	}
	if n := s.moves("worker_gone"); moved == 0 || n != float64(moved) {
		t.Errorf("%d sessions were on the replaced worker, %v moves are counted", moved, n)
	}
}

// TestADrainingWorkerFinishesAndGetsNoNextTurn is B38 of cases.md.
func TestADrainingWorkerFinishesAndGetsNoNextTurn(t *testing.T) {
	s := newStack(t, stackConfig{})
	client := http1()
	c := &conversation{id: "moored", model: "sim"}
	mustTurn(t, s, c)
	st := s.startStream(client, "moored", 60, 50*time.Millisecond)
	var b strings.Builder
	for _, w := range s.workers {
		fmt.Fprintf(&b, "- {address: %q, models: [sim], drain: %v}\n", w.address, w.address == c.workers[0])
	}
	s.write("workers.yaml", b.String())
	s.waitState(c.workers[0], "draining")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			fresh := &conversation{id: fmt.Sprint("new-", i), model: "sim"}
			if r, err := fresh.turn(client, s.gateway, "hello"); err != nil || r.status != http.StatusOK || fresh.workers[0] == c.workers[0] {
				t.Errorf("a new session: %v, status %d at %v", err, r.status, fresh.workers)
			}
		})
	}
	wg.Wait()
	mustTurn(t, s, c)
	mustTurn(t, s, c)
	if c.workers[1] == c.workers[0] || c.workers[2] != c.workers[1] {
		t.Errorf("turns went to %v, want one move", c.workers)
	}
	st.finish()
	if n := s.moves("worker_gone"); n != 1 {
		t.Errorf("%v moves, want 1", n)
	}
}
