package reconcile

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mooring/internal/fleet"
	"mooring/internal/simworker"
	"mooring/kvstate"
	"mooring/kvstate/blockhash"
	"mooring/kvstate/index"
)

// simulated is a simulated worker that serves.
type simulated struct {
	t    *testing.T
	url  string
	at   simworker.Endpoints
	stop func()
}

// prompt has four full blocks of 4 tokens; the fifth is not full.
var prompt = []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}

func simulate(t *testing.T, cfg simworker.Config) *simulated {
	t.Helper()
	ready := make(chan simworker.Endpoints, 1)
	cfg.BlockSize, cfg.Ready = 4, func(e simworker.Endpoints) { ready <- e }
	w, err := simworker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Serve(ctx, ln) }()
	s := &simulated{t: t, url: "http://" + ln.Addr().String()}
	stopped := false
	s.stop = func() {
		if cancel(); !stopped {
			stopped = true
			<-ended
		}
	}
	t.Cleanup(s.stop)
	select {
	case s.at = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return s
}

func (s *simulated) post(path, body string) {
	s.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Post(s.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		s.t.Fatalf("%s: %s", path, answer.Status)
	}
}

func (s *simulated) complete() {
	s.post("/v1/completions", strings.ReplaceAll(fmt.Sprintf(`{"prompt":%v,"max_tokens":1}`, prompt), " ", ","))
}

// matched returns what a look-up of the prompt finds on a worker.
func (r *running) matched(w kvstate.Worker) index.Match {
	ix, ok := r.set.Partition(testPartition)
	if !ok {
		return index.Match{Worker: w}
	}
	var m index.Matches
	ix.Match(r.controller.Projection(), blockhash.Append(nil, prompt, 4, blockhash.Seed("", "")), &m)
	return m.Of(w)
}

func (r *running) finds(what string, w kvstate.Worker, want func(index.Match) bool) {
	r.t.Helper()
	r.until(what, func() bool { return want(r.matched(w)) })
}

func nothing(m index.Match) bool { return m.Blocks() == 0 }
func all(m index.Match) bool     { return m.Blocks() == 4 }

// The start is over when what the engines of configured workers held before is
// there, or cannot be had.
func TestStartWaitsForWhatEnginesHold(t *testing.T) {
	s := simulate(t, simworker.Config{Events: simworker.KVEvents{
		Endpoint: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", ReplayDelay: 200 * time.Millisecond,
	}})
	s.complete()
	w, dead := testWorker(1), testWorker(2)
	w.KVEvents, w.KVReplay, w.BlockSize = s.at.KVEvents, s.at.KVReplay, 4
	dead.KVEvents = "tcp://127.0.0.1:1"
	one := kvstate.Worker{WorkerID: 1}
	run(t, w, dead).finds("the prompt on worker 1", one, all) // so it can be replayed

	began := time.Now()
	r := run(t, w, dead)
	<-r.Settled()
	if got := r.matched(one); !all(got) {
		t.Errorf("when the start is over the prompt is found as %+v", got)
	}
	if took := time.Since(began); took >= settleLimit {
		t.Errorf("the start took %v", took)
	}
}

// A configured worker is fed from its engine's events; it is not projected while it
// is not live, and nothing of it is left when it is listed no more.
func TestConfiguredWorkerIsFed(t *testing.T) {
	s := simulate(t, simworker.Config{Events: simworker.KVEvents{Endpoint: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0"}})
	s.complete()
	w := testWorker(1)
	w.KVEvents, w.KVReplay, w.BlockSize = s.at.KVEvents, s.at.KVReplay, 4
	r := run(t, w)
	one := kvstate.Worker{WorkerID: 1}
	r.finds("the prompt on worker 1", one, all)
	<-r.Settled()
	if state, reason := r.Worker(one); state != "ready" || reason != "" {
		t.Errorf("worker: %s %s", state, reason)
	}
	if o := r.Owners(); len(o) != 1 || o[0].Source != "config" || o[0].WorkerID != 1 || o[0].Resolution != "ready" {
		t.Errorf("owners: %+v", o)
	}
	before := r.Owners()[0].Cursor
	s.post("/v1/completions", `{"prompt":[21,22,23,24,25,26,27,28,29],"max_tokens":1}`) // changes no state
	r.soon("the cursor goes on", func() bool { return r.Owners()[0].Cursor > before })
	r.soon("the new blocks", func() bool {
		ix, _ := r.set.Partition(testPartition)
		return ix.Blocks(engineBlocks(one)) == 6
	})

	unhealthy := w
	unhealthy.State = fleet.Unhealthy
	r.live.Publish(fleet.NewView([]fleet.Worker{unhealthy}))
	r.finds("nothing while it is unhealthy", one, nothing)
	r.holds(engineBlocks(one), 6)
	r.live.Publish(fleet.NewView([]fleet.Worker{w}))
	r.finds("the prompt on worker 1", one, all)

	wrong := w
	wrong.BlockSize = 8
	r.live.Publish(fleet.NewView([]fleet.Worker{wrong}))
	r.until("a wrong block size", func() bool {
		state, reason := r.Worker(one)
		return state == "error" && reason == "block_size" && len(r.Problems()) == 1
	})
	r.live.Publish(fleet.NewView(nil))
	r.until("forgotten", func() bool {
		_, open := r.set.Partition(testPartition)
		return len(r.Owners()) == 0 && !open && r.controller.Projection().Len() == 0
	})
}

// Every way in which the agent misbehaves shows as its reason, and passes.
func TestAgentFaultsShow(t *testing.T) {
	r := run(t, testWorker(1))
	one := kvstate.Worker{WorkerID: 1}
	s := simulate(t, simworker.Config{
		Agent: simworker.StateAgent{Dir: r.records.root, CacheOwner: "pool", WorkerID: 1, PublisherID: 7}})
	s.complete()
	r.finds("the prompt on worker 1", one, all)
	for fault, reason := range map[string]string{"generation": "status_mismatch", "behind": "recovery_behind_barrier"} {
		s.post("/debug/agent/fault?set="+fault, "")
		r.until(fault+" shows", func() bool { return r.Owners()[0].Reason == reason })
		if !nothing(r.matched(one)) {
			t.Errorf("%s: it is still projected", fault)
		}
		s.post("/debug/agent/fault?set=none", "")
		r.finds(fault+" passes", one, all)
	}
	// A wrong identity shows when the next engine's state is recovered.
	s.post("/debug/agent/fault?set=identity", "")
	s.post("/debug/engine/restart", "")
	s.complete()
	r.until("identity shows", func() bool { return r.Owners()[0].Reason == "recovery_identity_mismatch" })
	s.post("/debug/agent/fault?set=none", "")
	r.finds("identity passes", one, all)
}

// The engine dies, and another one, on another worker, is attached to the same
// cache owner: what its pool has kept counts for that worker, the rest for nobody.
func TestPoolOutlivesItsEngine(t *testing.T) {
	r := run(t, testWorker(1), testWorker(2))
	one, two := kvstate.Worker{WorkerID: 1}, kvstate.Worker{WorkerID: 2}
	s := simulate(t, simworker.Config{
		Agent: simworker.StateAgent{Dir: r.records.root, CacheOwner: "pool", WorkerID: 1, PublisherID: 7}})
	s.complete()
	r.finds("the prompt on worker 1", one, func(m index.Match) bool { return m.Device == 4 })
	s.post("/debug/agent/detach", "")
	r.finds("nothing on worker 1", one, nothing)
	s.post("/debug/engine/restart?worker_id=2", "")
	r.finds("the pool's blocks on worker 2", two, func(m index.Match) bool { return m.Device == 0 && m.HostPinned == 4 })
	if got := r.matched(one); !nothing(got) {
		t.Errorf("worker 1 still has %+v", got)
	}
	s.post("/debug/engine/restart", "") // and back
	s.complete()
	r.finds("the new engine's blocks too", one, func(m index.Match) bool { return m.Device == 4 })
	if got := r.matched(two); !nothing(got) {
		t.Errorf("worker 2 still has %+v", got)
	}
	s.stop() // the records go with the process
	r.until("forgotten", func() bool { return len(r.Owners()) == 0 })
}
