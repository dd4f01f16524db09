package routing_test

import (
	"testing"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/routing"
)

func TestWhoWantsABody(t *testing.T) {
	two := worker(2, "m")
	k := newKVRig(t, routing.Config{ExplicitTarget: true, ModelHeader: "x-model"}, affinity.Config{}, worker(1, "m"), two)
	k.mustRoute(headers{"x-session-id": "bound"}, "").Release(affinity.Completed)
	wants := func(h headers) bool {
		req, err := k.router.ReadHeaders(h.values)
		if err != nil {
			t.Fatal(err)
		}
		if k.router.NeedsBody(&req) {
			t.Fatalf("%v: the body is needed", h)
		}
		return k.router.WantsBody(&req)
	}
	for what, tt := range map[string]struct {
		h    headers
		want bool
	}{
		"new session":          {headers{"x-session-id": "new"}, true},
		"bound session":        {headers{"x-session-id": "bound"}, false},
		"no session":           {headers{}, true},
		"no session, a worker": {headers{"x-dynamo-worker-instance-id": "1"}, false},
		"no session, unknown":  {headers{"x-model": "?"}, false},
		"named worker":         {headers{"x-session-id": "new", "x-dynamo-worker-instance-id": "1"}, false},
		"unknown group":        {headers{"x-session-id": "new", "x-routing-group": "g"}, false},
		"unknown model":        {headers{"x-session-id": "new", "x-model": "?"}, false},
		"known model":          {headers{"x-session-id": "new", "x-model": "m"}, true},
		"known model, no body": {headers{"x-session-id": "bound", "x-model": "m"}, false},
	} {
		if got := wants(tt.h); got != tt.want {
			t.Errorf("%s: %v, want %v", what, got, tt.want)
		}
	}
	// A session whose worker left opens anew.
	rt := k.mustRoute(headers{"x-session-id": "bound"}, "")
	gone := worker(rt.Target.Worker, "m")
	gone.State = fleet.Unhealthy
	k.live.Publish(fleet.NewView([]fleet.Worker{gone, worker(3-rt.Target.Worker, "m")}))
	if !wants(headers{"x-session-id": "bound"}) {
		t.Error("its worker has gone: its body is not wanted")
	}
	// Another model beside it, without KV state.
	k.live.Publish(fleet.NewView([]fleet.Worker{worker(1, "m"), worker(2, "n")}))
	for _, h := range []headers{{"x-session-id": "new", "x-model": "n"}, {"x-model": "n"}} {
		if wants(h) {
			t.Errorf("%v: no KV state: the body is wanted", h)
		}
	}
}

// What is wrong with a body that is only wanted refuses nobody, and the model in
// it decides nothing.
func TestAWantedBodyRefusesNobody(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"))
	for _, body := range []string{`{`, `[]`, `{"model":7}`, `{"model":"m","model":"m"}`, "\x00", `{"model":"nobody serves this"}`} {
		if _, err := k.route(headers{"x-session-id": "s" + body}, body); err != nil {
			t.Errorf("%q: %v", body, err)
		}
	}
	if _, err := k.route(headers{"x-session-id": "snappy", "content-encoding": "snappy"}, "??"); err != nil {
		t.Errorf("unknown encoding: %v", err)
	}
}
