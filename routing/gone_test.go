package routing_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/routing"
)

// in is worker id in a state.
func in(id fleet.WorkerID, s fleet.State) fleet.Worker {
	w := worker(id, "m")
	w.State = s
	return w
}

func TestAGoneWorkersSessionWaitsWhereThatIsConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, routing.Config{}, affinity.Config{WhenGone: affinity.Wait, WaitFor: 3 * time.Second}, worker(1, "m"))
		h := headers{"x-session-id": "s"}
		r.mustRoute(h, "").Release(affinity.Completed)
		r.live.Publish(fleet.NewView([]fleet.Worker{in(1, fleet.Unhealthy), worker(2, "m")}))

		routes := make(chan *routing.Route)
		go func() { routes <- r.mustRoute(h, "") }()
		time.Sleep(2 * time.Second)
		r.live.Publish(fleet.NewView([]fleet.Worker{worker(1, "m"), worker(2, "m")}))
		if rt := <-routes; rt.Target.Worker != 1 || rt.Reason != routing.Bound {
			t.Errorf("after its return: %v, %v; want worker 1, bound", rt.Target, rt.Reason)
		}

		r.live.Publish(fleet.NewView([]fleet.Worker{in(1, fleet.Unhealthy), worker(2, "m")}))
		start := time.Now()
		_, err := r.route(h, "")
		var refused *routing.Error
		if !errors.As(err, &refused) || refused.Kind != routing.Unavailable || refused.Reason != routing.WorkerGone || refused.RetryAfter <= 0 {
			t.Errorf("without its return: %v; want 503 worker_gone with a retry-after", err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("waited %v, want 3s", took)
		}
	})
}

// TestADrainingWorkersSessionsMoveOnceAndItsRequestsFinish is B38 of cases.md.
func TestADrainingWorkersSessionsMoveOnceAndItsRequestsFinish(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"))
	h := headers{"x-session-id": "s"}
	running := r.mustRoute(h, "")
	r.live.Publish(fleet.NewView([]fleet.Worker{in(1, fleet.Draining), worker(2, "m")}))
	for i, want := range []routing.Reason{routing.Rebound, routing.Bound, routing.Bound} {
		rt := r.mustRoute(h, "")
		if rt.Target.Worker != 2 || rt.Reason != want {
			t.Errorf("turn %d: %v, %v; want worker 2, %v", i, rt.Target, rt.Reason, want)
		}
		rt.Release(affinity.Completed)
	}
	if n := r.router.Live(running.Target); n != 1 {
		t.Errorf("%d live requests on the draining worker, want the one that runs", n)
	}
	running.Release(affinity.Completed)
	if got, _ := r.boundOn("s"); got.Worker != 2 {
		t.Errorf("the end of the old request moved the session to %v", got)
	}
	if rt := r.mustRoute(headers{"x-session-id": "new"}, ""); rt.Target.Worker != 2 {
		t.Errorf("a new session went to the draining worker")
	}
}

// TestSessionsOfADeadWorkerSpreadOverTheSurvivors is B42 of cases.md: each choice
// counts before the next one is made, so a stale load cannot pile them up.
func TestSessionsOfADeadWorkerSpreadOverTheSurvivors(t *testing.T) {
	const sessions = 300
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"))
	for i := range sessions {
		r.mustRoute(headers{"x-session-id": fmt.Sprint("s", i)}, "").Release(affinity.Completed)
	}
	r.live.Publish(fleet.NewView([]fleet.Worker{in(1, fleet.Vanished), worker(2, "m"), worker(3, "m"), worker(4, "m")}))
	routes := make([]*routing.Route, sessions)
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() { routes[i], _ = r.route(headers{"x-session-id": fmt.Sprint("s", i)}, "") })
	}
	wg.Wait()
	perWorker := make(map[fleet.WorkerID]int)
	for i, rt := range routes {
		if rt == nil || rt.Reason != routing.Rebound {
			t.Fatalf("session %d: %+v, want it rebound", i, rt)
		}
		perWorker[rt.Target.Worker]++
	}
	for id := fleet.WorkerID(2); id <= 4; id++ {
		if n := perWorker[id]; n < 75 || n > 125 {
			t.Errorf("sessions per worker are %v, want each within 25 percent of 100", perWorker)
		}
	}

	// A newcomer with no load at all gets its share and no more: every choice
	// raises its count, and those who run elsewhere weigh too.
	for _, rt := range routes {
		rt.Release(affinity.Completed)
	}
	r.live.Publish(fleet.NewView([]fleet.Worker{worker(2, "m"), worker(3, "m"), worker(4, "m"), worker(5, "m")}))
	onNew := 0
	for i := range 100 {
		if rt := r.mustRoute(headers{"x-session-id": fmt.Sprint("n", i)}, ""); rt.Target.Worker == 5 {
			onNew++
		}
	}
	if onNew != 25 {
		t.Errorf("%d of 100 new sessions on the newcomer, want 25", onNew)
	}
}

// TestCancelledFirstRequestsLeaveOneChoice is B41 of cases.md: the first of 50
// is cancelled while it chooses, ten of those who wait later.
func TestCancelledFirstRequestsLeaveOneChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := fleet.NewLive(fleet.NewView([]fleet.Worker{worker(1, "m"), worker(2, "m")}))
		sessions, err := affinity.NewResolver(live, affinity.Config{InitTimeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		router := routing.NewRouter(live, sessions, routing.Config{SessionHeaders: []string{"x-session-id"}})
		table, _ := sessions.Table(fleet.Partition{Model: "m", Group: fleet.DefaultName})
		dead, err := table.Acquire(t.Context(), "s", fleet.Target{}) // the first, which chooses and is cancelled
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan *routing.Route, 50)
		for i := range 49 {
			which := t.Context()
			if i < 10 {
				which = ctx
			}
			go func() {
				rt, err := router.Route(which, &routing.Request{Session: "s", Group: fleet.DefaultName})
				if (err != nil) != (i < 10) {
					t.Errorf("request %d: %v", i, err)
				}
				got <- rt
			}()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		start := time.Now()
		dead.Release(affinity.ClientAborted)
		var routes []*routing.Route
		for range 49 {
			if rt := <-got; rt != nil {
				routes = append(routes, rt)
			}
		}
		if waited := time.Since(start); len(routes) != 39 || waited != 0 {
			t.Fatalf("%d requests were routed, %v after the first one left; want 39, at once", len(routes), waited)
		}
		for _, rt := range routes {
			if rt.Target != routes[0].Target {
				t.Errorf("one went to %v, another to %v", rt.Target, routes[0].Target)
			}
		}
		if n := router.Live(routes[0].Target); n != 39 {
			t.Errorf("%d live requests, want 39", n)
		}
	})
}

// TestAFlappingFleetLosesNoRequest: whatever the fleet does between a pick and
// its bind, every request gets a route or a refusal, and nothing is left over.
func TestAFlappingFleetLosesNoRequest(t *testing.T) {
	for _, mode := range []affinity.Mode{affinity.Hard, affinity.Soft} {
		r := newRig(t, routing.Config{}, affinity.Config{Mode: mode}, worker(1, "m"), worker(2, "m"), worker(3, "m"))
		stop := make(chan struct{})
		var flapping, requests sync.WaitGroup
		flapping.Go(func() {
			for i := fleet.WorkerID(0); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r.live.Publish(fleet.NewView([]fleet.Worker{in(i%3+1, fleet.State(i/3%4)), worker((i+1)%3+1, "m"), worker((i+2)%3+1, "m")}))
			}
		})
		for lane := range 4 {
			requests.Go(func() {
				for i := range 2000 {
					rt, err := r.route(headers{"x-session-id": fmt.Sprint("s", (i+lane)%7)}, "")
					var refused *routing.Error
					switch {
					case err == nil:
						rt.ReleaseServed(affinity.Outcome(i%4), fmt.Sprintf("10.0.0.%d:8000", i%3+1))
					case !errors.As(err, &refused) || refused.Kind != routing.Unavailable && refused.Kind != routing.TimedOut:
						t.Errorf("refused as %v", err)
					}
				}
			})
		}
		requests.Wait()
		close(stop)
		flapping.Wait()
		for id := fleet.WorkerID(1); id <= 3; id++ {
			if n := r.router.Live(fleet.OnRank(id, 0)); n != 0 {
				t.Errorf("%v: %d live requests are left on worker %d", mode, n, id)
			}
		}
	}
}
