package routing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/routing"
)

// rig is a router over a fleet that the test changes by hand.
type rig struct {
	t      *testing.T
	live   *fleet.Live
	router *routing.Router
}

func newRig(t *testing.T, cfg routing.Config, table affinity.Config, workers ...fleet.Worker) *rig {
	t.Helper()
	live := fleet.NewLive(fleet.NewView(workers))
	table.TTL, table.InitTimeout, table.Grace = time.Minute, time.Second, time.Second
	if table.MaxSessions == 0 {
		table.MaxSessions = 1000
	}
	table.WriterID = 1
	sessions, err := affinity.NewResolver(live, table)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.SessionHeaders == nil {
		cfg.SessionHeaders = []string{"x-dynamo-session-id", "x-claude-code-session-id", "x-session-id"}
	}
	cfg.GroupHeader = "x-routing-group"
	if cfg.MaxBodyBytes == 0 {
		cfg.MaxBodyBytes = 1 << 20
	}
	return &rig{t: t, live: live, router: routing.NewRouter(live, sessions, cfg)}
}

func worker(id fleet.WorkerID, models ...string) fleet.Worker {
	return fleet.Worker{ID: id, Address: fmt.Sprintf("10.0.0.%d:8000", id), Models: models, Group: fleet.DefaultName, Ranks: 1, State: fleet.Active}
}

// headers are one request's, one value each.
type headers map[string]string

func (h headers) values(name string) []string {
	if v, ok := h[name]; ok {
		return []string{v}
	}
	return nil
}

// route reads headers and body as the filter does, and routes.
func (r *rig) route(h headers, body string) (*routing.Route, error) {
	r.t.Helper()
	req, err := r.router.ReadHeaders(h.values)
	if err != nil {
		return nil, err
	}
	if r.router.NeedsBody(&req) || r.router.WantsBody(&req) {
		if err := r.router.ReadBody(&req, h["content-encoding"], []byte(body)); err != nil {
			return nil, err
		}
	}
	return r.router.Route(context.Background(), &req)
}

func (r *rig) mustRoute(h headers, body string) *routing.Route {
	r.t.Helper()
	rt, err := r.route(h, body)
	if err != nil {
		r.t.Fatalf("route %v: %v", h, err)
	}
	return rt
}

// wantRefused routes and checks why it was refused.
func (r *rig) wantRefused(h headers, body string, kind routing.Kind, reason routing.Reason, message string) {
	r.t.Helper()
	rt, err := r.route(h, body)
	var refused *routing.Error
	if !errors.As(err, &refused) {
		r.t.Errorf("route %v: got %+v, %v; want it refused", h, rt, err)
		return
	}
	if refused.Kind != kind || refused.Reason != reason || !strings.Contains(refused.Message, message) {
		r.t.Errorf("route %v: refused as kind %d, %v, %q; want kind %d, %v, %q", h, refused.Kind, refused.Reason, refused.Message, kind, reason, message)
	}
}

func TestASessionKeepsItsWorker(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"), worker(3, "m"))
	for i := range 50 {
		h := headers{"x-session-id": fmt.Sprint("s", i)}
		first := r.mustRoute(h, "")
		if first.Reason != routing.New {
			t.Errorf("first turn: reason %v, want new", first.Reason)
		}
		first.Release(affinity.Completed)
		second := r.mustRoute(h, "")
		if second.Target != first.Target || second.Reason != routing.Bound || second.Address != first.Address {
			t.Errorf("second turn: %v %v at %s, want %v bound at %s", second.Target, second.Reason, second.Address, first.Target, first.Address)
		}
		second.Release(affinity.Completed)
	}
}

func TestASessionMovesOnceWhenItsWorkerGoes(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	h := headers{"x-session-id": "s"}
	first := r.mustRoute(h, "")
	first.Release(affinity.Completed)
	gone := worker(first.Target.Worker, "m")
	gone.State = fleet.Unhealthy
	r.live.Publish(fleet.NewView([]fleet.Worker{gone, worker(3-first.Target.Worker, "m")}))

	moved := r.mustRoute(h, "")
	moved.Release(affinity.Completed)
	if moved.Reason != routing.Rebound || moved.Target.Worker == first.Target.Worker {
		t.Errorf("got %v %v, want it rebound to the other worker", moved.Target, moved.Reason)
	}
	again := r.mustRoute(h, "")
	again.Release(affinity.Completed)
	if again.Reason != routing.Bound || again.Target != moved.Target {
		t.Errorf("got %v %v, want it bound where it moved", again.Target, again.Reason)
	}
}

func TestAGoneWorkersSessionFailsWhereThatIsConfigured(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{WhenGone: affinity.Fail}, worker(1, "m"))
	h := headers{"x-session-id": "s"}
	r.mustRoute(h, "").Release(affinity.Completed)
	gone := worker(1, "m")
	gone.State = fleet.Unhealthy
	r.live.Publish(fleet.NewView([]fleet.Worker{gone, worker(2, "m")}))
	r.wantRefused(h, "", routing.Unavailable, routing.WorkerGone, "gone")
	r.live.Publish(fleet.NewView([]fleet.Worker{worker(1, "m"), worker(2, "m")}))
	if rt := r.mustRoute(h, ""); rt.Target.Worker != 1 || rt.Reason != routing.Bound {
		t.Errorf("after its return: %v %v, want worker 1, bound", rt.Target, rt.Reason)
	}
}

func TestManyFirstRequestsOfOneSessionMakeOneChoice(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"), worker(3, "m"))
	const n = 200
	routes := make([]*routing.Route, n)
	var wg sync.WaitGroup
	for i := range routes {
		wg.Go(func() { routes[i], _ = r.route(headers{"x-session-id": "s"}, "") })
	}
	wg.Wait()
	news := 0
	for _, rt := range routes {
		if rt == nil || rt.Target != routes[0].Target {
			t.Fatalf("got %+v, want all on %v", rt, routes[0].Target)
		}
		if rt.Reason == routing.New {
			news++
		}
	}
	if news != 1 {
		t.Errorf("%d requests chose, want 1", news)
	}
	if got := r.router.Live(routes[0].Target); got != n {
		t.Errorf("live requests = %d, want %d", got, n)
	}
	for _, rt := range routes {
		rt.Release(affinity.Completed)
		rt.Release(affinity.Completed)
	}
	if got := r.router.Live(routes[0].Target); got != 0 {
		t.Errorf("live requests after each release = %d, want 0", got)
	}
}

func TestNewSessionsGoWhereTheFewestRequestsLive(t *testing.T) {
	two := worker(2, "m")
	two.Ranks = 2
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), two)
	perTarget := make(map[fleet.Target]int)
	for i := range 300 {
		perTarget[r.mustRoute(headers{"x-session-id": fmt.Sprint("s", i)}, "").Target]++
	}
	want := map[fleet.Target]int{fleet.OnRank(1, 0): 100, fleet.OnRank(2, 0): 100, fleet.OnRank(2, 1): 100}
	for target, n := range want {
		if perTarget[target] != n {
			t.Errorf("sessions per target are %v, want %v", perTarget, want)
		}
	}
}

func TestTiesSpreadAndReplicasAgree(t *testing.T) {
	workers := []fleet.Worker{worker(1, "m"), worker(2, "m"), worker(3, "m")}
	a := newRig(t, routing.Config{}, affinity.Config{}, workers...)
	b := newRig(t, routing.Config{}, affinity.Config{}, workers...)
	perWorker := make(map[fleet.WorkerID]int)
	for i := range 3000 {
		h := headers{"x-session-id": fmt.Sprint("conversation-", i)}
		x, y := a.mustRoute(h, ""), b.mustRoute(h, "")
		if x.Target != y.Target {
			t.Fatalf("replicas with equal load chose %v and %v", x.Target, y.Target)
		}
		x.Release(affinity.Completed)
		y.Release(affinity.Completed)
		perWorker[x.Target.Worker]++
	}
	for id, n := range perWorker {
		if n < 900 || n > 1100 {
			t.Errorf("worker %d got %d of 3000 idle choices, want about a third", id, n)
		}
	}
}

func TestRequestsWithoutASessionSpread(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"), worker(3, "m"))
	for _, h := range []headers{{}, {"x-session-id": ""}, {"x-session-id": " \t"}} {
		perWorker := make(map[fleet.WorkerID]int)
		for range 300 {
			rt := r.mustRoute(h, "")
			if rt.Reason != routing.NoSession {
				t.Fatalf("%v: reason %v, want no_session", h, rt.Reason)
			}
			perWorker[rt.Target.Worker]++
			rt.Release(affinity.Completed)
		}
		if len(perWorker) != 3 {
			t.Errorf("%v: requests per worker are %v, want all three used", h, perWorker)
		}
	}
}

func TestAFullTableRoutesUnpinned(t *testing.T) {
	r := newRig(t, routing.Config{ExplicitTarget: true}, affinity.Config{MaxSessions: 1}, worker(1, "m"), worker(2, "m"))
	kept := headers{"x-session-id": "kept"}
	r.mustRoute(kept, "").Release(affinity.Completed)
	if rt := r.mustRoute(headers{"x-session-id": "more"}, ""); rt.Reason != routing.TableFull {
		t.Errorf("reason %v, want table_full", rt.Reason)
	}
	if rt := r.mustRoute(kept, ""); rt.Reason != routing.Bound {
		t.Errorf("the old session: reason %v, want bound", rt.Reason)
	}
	for _, id := range []string{"1", "2"} {
		rt := r.mustRoute(headers{"x-session-id": "more", "x-dynamo-worker-instance-id": id}, "")
		if rt.Target.Worker.String() != id || rt.Reason != routing.Explicit {
			t.Errorf("naming worker %s: %v %v, want it there, explicit", id, rt.Target, rt.Reason)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	down := worker(1, "m")
	down.State = fleet.Unhealthy
	r := newRig(t, routing.Config{}, affinity.Config{}, down)
	r.wantRefused(headers{}, "", routing.Unavailable, routing.NoWorker, "no worker")
	r.wantRefused(headers{"x-session-id": "s"}, "", routing.Unavailable, routing.NoWorker, "no worker")
	r.live.Publish(fleet.NewView(nil))
	r.wantRefused(headers{"x-session-id": "s"}, "", routing.Unavailable, routing.NoWorker, "no worker")
}

func TestExplicitTargets(t *testing.T) {
	two := worker(2, "m")
	two.Ranks = 2
	r := newRig(t, routing.Config{ExplicitTarget: true}, affinity.Config{}, worker(1, "m"), two)
	named := func(worker, rank string) headers {
		h := headers{"x-dynamo-worker-instance-id": worker}
		if rank != "" {
			h["x-dynamo-dp-rank"] = rank
		}
		return h
	}
	for _, h := range []headers{named("2", "1"), {"x-worker-instance-id": "2", "x-data-parallel-rank": "1"}} {
		if rt := r.mustRoute(h, ""); rt.Target != fleet.OnRank(2, 1) || rt.Reason != routing.Explicit {
			t.Errorf("%v: got %v %v, want 2:1 explicit", h, rt.Target, rt.Reason)
		}
	}
	bound := named("1", "")
	bound["x-session-id"] = "s"
	r.mustRoute(bound, "").Release(affinity.Completed)
	if rt := r.mustRoute(headers{"x-session-id": "s"}, ""); rt.Target.Worker != 1 || rt.Reason != routing.Bound {
		t.Errorf("after an explicit bind: %v %v, want worker 1, bound", rt.Target, rt.Reason)
	}
	conflict := named("2", "0")
	conflict["x-session-id"] = "s"
	r.wantRefused(conflict, "", routing.Conflict, routing.Explicit, "bound")

	r.wantRefused(named("nine", ""), "", routing.BadRequest, routing.Invalid, "x-dynamo-worker-instance-id")
	r.wantRefused(named("2", "2"), "", routing.BadRequest, routing.Invalid, "rank")
	r.wantRefused(named("77", ""), "", routing.BadRequest, routing.Invalid, "does not serve")
	r.wantRefused(headers{"x-dp-rank": "0"}, "", routing.BadRequest, routing.Invalid, "without a worker")
}

func TestExplicitTargetsAreIgnoredUnlessConfigured(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"))
	if rt := r.mustRoute(headers{"x-dynamo-worker-instance-id": "nonsense"}, ""); rt.Reason != routing.NoSession {
		t.Errorf("reason %v, want no_session", rt.Reason)
	}
}

func TestTheGatewaysSubsetIsKept(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	ctx := context.Background()
	within := func(session string, addresses ...string) (*routing.Route, error) {
		return r.router.Route(ctx, &routing.Request{Session: session, Group: fleet.DefaultName, Restricted: true, Subset: addresses})
	}
	for i, address := range slices.Repeat([]string{"10.0.0.2:8000", "10.0.0.2"}, 10) {
		rt, err := within(fmt.Sprint("s", i), address)
		if err != nil || rt.Target.Worker != 2 {
			t.Fatalf("got %+v, %v; want worker 2", rt, err)
		}
	}
	for _, addresses := range [][]string{{"10.0.0.1:8000"}, {"10.0.0.1", "10.0.0.2:8001", "10.0.0.20"}, {}} {
		_, err := within("s0", addresses...)
		var refused *routing.Error
		if !errors.As(err, &refused) || refused.Reason != routing.Subset || refused.Kind != routing.Unavailable {
			t.Errorf("bound outside %v: %v, want 503 subset", addresses, err)
		}
	}
	if rt := r.mustRoute(headers{"x-session-id": "s0"}, ""); rt.Target.Worker != 2 || rt.Reason != routing.Bound {
		t.Errorf("after the refusal: %v %v, want worker 2, bound", rt.Target, rt.Reason)
	}
}

func TestChildrenOfOneParentShareABinding(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"), worker(3, "m"))
	tests := []struct {
		name   string
		h      headers
		parent string // "" means: binds under its own id
	}{
		{"no parent", headers{"x-session-id": "a"}, ""},
		{"parent", headers{"x-session-id": "a", "x-parent-session-id": "p"}, "p"},
		{"own parent", headers{"x-session-id": "a", "x-parent-session-id": "a"}, ""},
		{"another family's parent", headers{"x-dynamo-session-id": "a", "x-parent-session-id": "p"}, ""},
		{"claude, main", headers{"x-claude-code-session-id": "a", "x-claude-code-parent-agent-id": "p"}, ""},
		{"claude, agent of the root", headers{"x-claude-code-session-id": "root", "x-claude-code-agent-id": "a"}, "root"},
		{"claude, agent of an agent", headers{"x-claude-code-session-id": "root", "x-claude-code-agent-id": "a", "x-claude-code-parent-agent-id": "p"}, "p"},
	}
	for _, tt := range tests {
		req, err := r.router.ReadHeaders(tt.h.values)
		want := "a"
		if tt.parent != "" {
			want = affinity.GroupKey(tt.parent)
		}
		if err != nil || req.Session != want {
			t.Errorf("%s: session %q, %v; want %q", tt.name, req.Session, err, want)
		}
	}
	r.wantRefused(headers{"x-session-id": strings.Repeat("s", 257)}, "", routing.BadRequest, routing.Invalid, "256")
	r.wantRefused(headers{"x-session-id": "a", "x-parent-session-id": strings.Repeat("s", 257)}, "", routing.BadRequest, routing.Invalid, "x-parent-session-id")
}

func TestAWaiterLeavesWithItsContext(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{WhenGone: affinity.Wait, WaitFor: time.Minute}, worker(1, "m"))
	h := headers{"x-session-id": "s"}
	r.mustRoute(h, "").Release(affinity.Completed)
	gone := worker(1, "m")
	gone.State = fleet.Unhealthy
	r.live.Publish(fleet.NewView([]fleet.Worker{gone}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	req, err := r.router.ReadHeaders(h.values)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.router.Route(ctx, &req)
	var refused *routing.Error
	if !errors.As(err, &refused) || refused.Kind != routing.Unavailable || refused.Reason != routing.WorkerGone {
		t.Errorf("got %v, want it refused because the worker is gone", err)
	}
}

func TestUnloadLeavesTheLease(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"))
	rt := r.mustRoute(headers{"x-session-id": "s"}, "")
	rt.Unload()
	if got := r.router.Live(rt.Target); got != 0 {
		t.Errorf("live requests = %d, want 0", got)
	}
	rt.Release(affinity.Completed)
	if got := r.router.Live(rt.Target); got != 0 {
		t.Errorf("live requests after release = %d, want 0", got)
	}
}
