package routing_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/routing"
)

func TestLimitsMakeBusy(t *testing.T) {
	cfg := routing.Config{ExplicitTarget: true, Limits: routing.Limits{ActiveRequests: 2}}
	r := newRig(t, cfg, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	var held []*routing.Route
	for i := range 4 {
		held = append(held, r.mustRoute(headers{"x-session-id": fmt.Sprint(i)}, ""))
	}
	_, err := r.route(headers{"x-session-id": "more"}, "")
	var busy *routing.Error
	if !errors.As(err, &busy) || busy.Kind != routing.Busy || busy.Reason != routing.Overloaded || busy.RetryAfter <= 0 {
		t.Fatalf("all at their limits: %#v, want busy, overloaded, with a time to retry", err)
	}
	r.wantRefused(headers{}, "", routing.Busy, routing.Overloaded, "limits")
	held[0].Release(affinity.Completed)
	if rt := r.mustRoute(headers{"x-session-id": "more"}, ""); rt.Target != held[0].Target {
		t.Errorf("one has room: %v, want %v", rt.Target, held[0].Target)
	}
	// What is bound, and what is named, queues there.
	if rt := r.mustRoute(headers{"x-session-id": "0"}, ""); rt.Reason != routing.Bound {
		t.Errorf("a bound session: %v", rt.Reason)
	}
	if rt := r.mustRoute(headers{"x-session-id": "named", "x-dynamo-worker-instance-id": "1"}, ""); rt.Reason != routing.Explicit {
		t.Errorf("a named worker: %v", rt.Reason)
	}
	r.live.Publish(fleet.NewView(nil))
	r.wantRefused(headers{"x-session-id": "nobody"}, "", routing.Unavailable, routing.NoWorker, "no worker")
}

// What workers say of themselves keeps them out of a choice, while it is news.
func TestLimitsOnFigures(t *testing.T) {
	for what, tt := range map[string]struct {
		limits routing.Limits
		said   routing.Figures
	}{
		"waiting": {routing.Limits{WaitingRequests: 3}, routing.Figures{Waiting: 3}},
		"memory":  {routing.Limits{KVUse: 0.8}, routing.Figures{KVUse: 0.8}},
	} {
		synctest.Test(t, func(t *testing.T) {
			tt.said.At = time.Now()
			busy := map[fleet.WorkerID]bool{1: true}
			cfg := routing.Config{Limits: tt.limits, Figures: func(t fleet.Target) (routing.Figures, bool) { return tt.said, busy[t.Worker] }}
			r := newRig(t, cfg, affinity.Config{}, worker(1, "m"), worker(2, "m"))
			for range 8 {
				if rt := r.mustRoute(headers{}, ""); rt.Target.Worker != 2 {
					t.Errorf("%s, %v ago: on %v, which is at its limit", what, time.Since(tt.said.At), rt.Target)
				}
				time.Sleep(time.Second)
			}
			busy[2] = true
			r.wantRefused(headers{}, "", routing.Busy, routing.Overloaded, "limits")
			time.Sleep(time.Minute)
			r.mustRoute(headers{}, "")
		})
	}
}

// Others' requests count while they are news.
func TestFiguresSteerChoices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := routing.Figures{Running: 6, Waiting: 2, At: time.Now()}
		cfg := routing.Config{Figures: func(t fleet.Target) (routing.Figures, bool) { return said, t.Worker == 1 }}
		r := newRig(t, cfg, affinity.Config{}, worker(1, "m"), worker(2, "m"))
		counts := func(n int) (on1 int) {
			var routes []*routing.Route
			for i := range n {
				rt := r.mustRoute(headers{"x-request-id": fmt.Sprint(i)}, "")
				if routes = append(routes, rt); rt.Target.Worker == 1 {
					on1++
				}
			}
			for _, rt := range routes {
				rt.Release(affinity.Completed)
			}
			return on1
		}
		if got := counts(8); got != 0 {
			t.Errorf("fresh: %d of 8 on the worker that has 8 already, want none", got)
		}
		if got := counts(28); got != 10 {
			t.Errorf("fresh: %d of 28 there, want 10: 8 + 10 = 18", got)
		}
		time.Sleep(time.Minute)
		if got := counts(8); got != 4 {
			t.Errorf("a minute later: %d of 8 there, want 4", got)
		}
	})
}
