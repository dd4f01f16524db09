package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestEveryTurnGoesToTheFirstTurnsWorker(t *testing.T) {
	for _, mode := range []string{"full_duplex", "buffered", "none"} {
		t.Run(mode, func(t *testing.T) {
			s := newStack(t, stackConfig{envoyYAML: "body_mode: " + mode})
			for name, client := range map[string]*http.Client{"http1": http1(), "http2": http2()} {
				sessions := newConversations(name, "sim", 200)
				converse(t, client, s.gateway, sessions, 5)
				perWorker := make(map[string]int)
				for _, c := range sessions {
					checkStayed(t, c)
					perWorker[c.workers[0]]++
				}
				t.Logf("%s: sessions per worker: %v", name, perWorker)
				least, most := 200, 0
				for _, n := range perWorker {
					least, most = min(least, n), max(most, n)
				}
				if len(perWorker) != 3 || most > 2*least {
					t.Errorf("%s: sessions per worker are %v, want no worker with more than twice another's", name, perWorker)
				}
			}
			s.checkNothingLive()
		})
	}
}

// checkStayed checks that each turn was served by the first turn's worker, and
// that its cache shows it.
func checkStayed(t *testing.T, c *conversation) {
	t.Helper()
	for n := 1; n < len(c.workers); n++ {
		if c.workers[n] != c.workers[0] {
			t.Errorf("session %s moved from %s to %s at turn %d", c.id, c.workers[0], c.workers[n], n)
		}
		if c.cached[n] <= c.cached[n-1] {
			t.Errorf("session %s: cached tokens by turn are %v, want them to grow", c.id, c.cached)
		}
	}
}

// checkNothingLive waits until every request has been reported as ended.
func (s *stack) checkNothingLive() {
	s.t.Helper()
	eventually(s.t, 5*time.Second, "no live request on any worker", func() bool {
		live := 0
		for _, w := range s.adminWorkers() {
			live += w.Live
		}
		return live == 0
	})
}

type adminWorker struct {
	ID       string `json:"worker_id"`
	Address  string
	State    string
	Doubted  bool
	Sessions int
	Live     int
}

func (s *stack) adminWorkers() []adminWorker {
	s.t.Helper()
	var answer struct{ Workers []adminWorker }
	s.get("/v1/workers", &answer)
	return answer.Workers
}

func TestAKilledWorkersSessionsMoveAndNoOthers(t *testing.T) {
	s := newStack(t, stackConfig{})
	client := http1()
	sessions := newConversations("k", "sim", 60)
	converse(t, client, s.gateway, sessions, 1)
	victim := s.workers[0]
	victim.kill()

	var refused atomic.Int64
	var wg sync.WaitGroup
	for _, c := range sessions {
		wg.Go(func() {
			for deadline := time.Now().Add(10 * time.Second); ; {
				r, err := c.turn(client, s.gateway, "and then?")
				switch {
				case err != nil:
					t.Errorf("session %s: %v", c.id, err)
					return
				case r.status == http.StatusOK:
					return
				case r.status != http.StatusServiceUnavailable:
					t.Errorf("session %s: status %d, want 200 or 503: %s", c.id, r.status, r.body)
					return
				case time.Now().After(deadline):
					t.Errorf("session %s still gets 503 after 10 s: %s", c.id, r.body)
					return
				}
				refused.Add(1)
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	moved := 0
	for _, c := range sessions {
		if len(c.workers) < 2 {
			continue
		}
		switch onVictim := c.workers[0] == victim.address; {
		case onVictim && c.workers[1] == victim.address:
			t.Errorf("session %s was served by a dead worker", c.id)
		case onVictim:
			moved++
		case c.workers[1] != c.workers[0]:
			t.Errorf("session %s moved though its worker lives", c.id)
		}
	}
	t.Logf("%d of %d sessions moved, %d requests got a 503 in between", moved, len(sessions), refused.Load())
	if moved == 0 {
		t.Error("no session was on the killed worker: the test shows nothing")
	}
	converse(t, client, s.gateway, sessions, 1)
	for _, c := range sessions {
		if c.workers[2] != c.workers[1] {
			t.Errorf("session %s moved twice", c.id)
		}
	}
}

func TestAWorkerIsAddedUnderLoad(t *testing.T) {
	s := newStack(t, stackConfig{models: []string{"sim", "sim"}})
	stop := make(chan struct{})
	var requests, onNew atomic.Int64
	var added atomic.Value
	added.Store("")
	var wg sync.WaitGroup
	for lane := range 6 {
		client := http1()
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				c := &conversation{id: fmt.Sprintf("load-%d-%d", lane, n), model: "sim"}
				r, err := c.turn(client, s.gateway, "hello there")
				requests.Add(1)
				if err != nil || r.status != http.StatusOK {
					t.Errorf("request %s failed: %v, status %d: %s", c.id, err, r.status, r.body)
					return
				}
				if c.workers[0] == added.Load() {
					onNew.Add(1)
				}
			}
		})
	}
	eventually(t, 10*time.Second, "some load", func() bool { return requests.Load() > 100 })
	added.Store(s.startWorker("sim").address)
	s.writeWorkers()
	eventually(t, 15*time.Second, "requests on the new worker", func() bool { return onNew.Load() > 50 || t.Failed() })
	close(stop)
	wg.Wait()
	t.Logf("%d requests, %d of them on the new worker, none failed", requests.Load(), onNew.Load())
}

func TestRequestsWithoutASessionSpread(t *testing.T) {
	s := newStack(t, stackConfig{})
	client := http1()
	perWorker := make(map[string]int)
	for range 150 {
		r, err := post(client, s.gateway, "/v1/completions", []byte(`{"model":"sim","prompt":"hello","max_tokens":2}`), map[string]string{"X-Session-Id": "  "})
		if err != nil || r.status != http.StatusOK {
			t.Fatalf("%v, status %d: %s", err, r.status, r.body)
		}
		perWorker[r.header.Get("X-Sim-Worker")]++
	}
	for _, w := range s.workers {
		if n := perWorker[w.address]; n < 20 {
			t.Errorf("requests per worker are %v, want them spread", perWorker)
		}
	}
	var answer struct{ Sessions []any }
	s.get("/v1/sessions", &answer)
	if len(answer.Sessions) != 0 {
		t.Errorf("a blank session id was bound: %v", answer.Sessions)
	}
}

func TestAnyBodyArrivesByteIdentical(t *testing.T) {
	for _, mode := range []string{"full_duplex", "buffered", "none"} {
		t.Run(mode, func(t *testing.T) {
			s := newStack(t, stackConfig{envoyYAML: "body_mode: " + mode})
			for name, client := range map[string]*http.Client{"http1": http1(), "http2": http2()} {
				for _, size := range []int{0, 1, 60_000, 62_000, 62_001, 130_000, 1 << 20, 5 << 20} {
					body := strings.Repeat("0123456789abcde\n", size/16+1)[:size]
					for _, chunked := range []bool{false, true} {
						var reader io.Reader = strings.NewReader(body)
						if chunked {
							reader = io.MultiReader(reader) // hides the length
						}
						r, err := send(client, http.MethodPost, s.gateway, "/debug/echo", reader, map[string]string{"X-Session-Id": "bytes"})
						if err != nil || r.status != http.StatusOK {
							t.Errorf("%s %d bytes, chunked %v: %v, status %d: %s", name, size, chunked, err, r.status, r.body)
							continue
						}
						if want := digest(body); !strings.Contains(string(r.body), want) {
							t.Errorf("%s %d bytes, chunked %v: worker got %s, want sha256 %s", name, size, chunked, r.body, want)
						}
					}
				}
			}
		})
	}
}

func TestMethodsWithoutABody(t *testing.T) {
	s := newStack(t, stackConfig{models: []string{"a", "b"}})
	for _, client := range []*http.Client{http1(), http2()} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r, err := send(client, method, s.gateway, "/v1/models", nil, nil)
			if err != nil || r.status != http.StatusOK {
				t.Errorf("%s /v1/models: %v, status %d: %s", method, err, r.status, r.body)
			}
		}
	}
	if workers := s.adminWorkers(); !slices.ContainsFunc(workers, func(w adminWorker) bool { return w.State == "active" }) {
		t.Errorf("workers: %v", workers)
	}
}
