package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestKVRanksAreWorkersOfTheirOwn holds a conversation on each of two ranks of two
// workers. A third worker, which is draining, lacks the last rank that it is said
// to have.
func TestKVRanksAreWorkersOfTheirOwn(t *testing.T) {
	t.Parallel()
	base := freeAddress(t)
	flags := append(kvSockets(), "--ranks", "2")
	s := newKVStack(t, stackConfig{
		flagsOfEach: [][]string{flags, flags, {"--ranks", "2", "--kv-events", "tcp://" + base}},
		workerKeys: func(w *simWorker) string {
			keys := kvKeys(w)
			if w.ready["kv_events"] == "tcp://"+base {
				keys = strings.Replace(keys, "ranks: 2", "ranks: 3, drain: true", 1)
			}
			return keys
		},
	})
	topics := make(map[string]string) // by target
	for i, w := range s.workers[:2] {
		for rank := range 2 {
			target := fmt.Sprintf("%s:%d", w.address, rank)
			topics[target] = fmt.Sprintf("Subject %d%d", i, rank)
			s.seed(target, topics[target])
		}
	}
	s.inStep(s.workers[:2]...)
	for target, topic := range topics {
		there := 0
		for i := range 8 {
			s.checkNothingLive()
			session := fmt.Sprintf("%s %d", topic, i)
			r := s.ask(session, topic, fmt.Sprint("Question ", i))
			if at := r.header.Get("X-Sim-Worker") + ":" + r.header.Get("X-Sim-Rank"); at == target {
				there++
			}
			s.wantRankHeader(r, session)
		}
		t.Logf("%d of 8 went to %s", there, target)
		if there < 8 {
			t.Errorf("%d of 8 new conversations went to %s, which holds their system prompt", there, target)
		}
		for _, c := range s.explain("any", topic).Candidates {
			if at := fmt.Sprintf("%s:%d", c.Address, *c.Rank); (c.Device > 20) != (at == target) {
				t.Errorf("%s of %s: %d blocks of its prompt at %s", topic, target, c.Device, at)
			}
		}
	}
	// The pin keeps its rank.
	for target, topic := range topics {
		r := s.ask("seed-"+topic, "Another", "Are you still there?")
		if at := r.header.Get("X-Sim-Worker") + ":" + r.header.Get("X-Sim-Rank"); at != target || r.header.Get("X-Mooring-Reason") != "bound" {
			t.Errorf("pinned to %s, served at %s: %s", target, at, r.header.Get("X-Mooring-Reason"))
		}
	}
	s.checkMissingRank(s.workers[2])
}

// wantRankHeader checks that the worker was told the rank by which it served.
func (s *stack) wantRankHeader(r reply, session string) {
	s.t.Helper()
	w := s.workers[s.indexOf(r.header.Get("X-Sim-Worker"))]
	var answer struct {
		Requests []struct{ Headers http.Header }
	}
	if status, err := fetch("http://"+w.address+"/debug/requests?limit=1&session="+strings.ReplaceAll(session, " ", "%20"), &answer); err != nil || status != http.StatusOK || len(answer.Requests) != 1 {
		s.t.Fatalf("status %d, %v: %+v", status, err, answer)
	}
	told := answer.Requests[0].Headers
	for _, name := range []string{"X-Data-Parallel-Rank", "X-Dynamo-Dp-Rank"} {
		if got := told.Get(name); got != r.header.Get("X-Sim-Rank") {
			s.t.Errorf("%s: %q, served by rank %s", name, got, r.header.Get("X-Sim-Rank"))
		}
	}
}

// checkMissingRank checks that ranks 0 and 1 of a worker are known, and that rank 2
// shows as the one that is not.
func (s *stack) checkMissingRank(w *simWorker) {
	s.t.Helper()
	id := s.known(w).ID
	eventually(s.t, 10*time.Second, "two ranks are ready", func() bool {
		ready := 0
		for _, o := range s.owners() {
			if o.WorkerID == id && o.Resolution == "ready" {
				ready++
			}
		}
		return ready == 2
	})
	for rank, want := range []float64{1, 1, 0} {
		if got := metricAt(s.t, s.admin+"/metrics", "mooring_kv_feed_connected", "worker", w.address, "dp_rank", fmt.Sprint(rank)); got != want {
			s.t.Errorf("rank %d: mooring_kv_feed_connected is %v, want %v", rank, got, want)
		}
	}
	if k := s.known(w); k.KV.State != "unavailable" || k.KV.Reason == "" {
		s.t.Errorf("a rank of %+v is missing, which does not show", k)
	}
}
