package routing_test

import (
	"context"
	"fmt"
	"testing"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/routing"
)

// ranked is a worker of model m with several ranks.
func ranked(id fleet.WorkerID, ranks uint32) fleet.Worker {
	w := worker(id, "m")
	w.Ranks = ranks
	return w
}

// boundOn returns where a session's next request goes, and ends that request.
func (r *rig) boundOn(session string) (fleet.Target, routing.Reason) {
	r.t.Helper()
	rt := r.mustRoute(headers{"x-session-id": session}, "")
	rt.Release(affinity.Completed)
	return rt.Target, rt.Reason
}

func TestASoftBindingFollowsTheDispatch(t *testing.T) {
	tests := []struct {
		name    string
		workers []fleet.Worker // the session is bound to the first
		outcome affinity.Outcome
		served  string
		want    fleet.Target
	}{
		{"answered elsewhere", []fleet.Worker{worker(1, "m"), worker(2, "m")}, affinity.Completed, "10.0.0.2:8000", fleet.OnRank(2, 0)},
		{"answered elsewhere, then the client left", []fleet.Worker{worker(1, "m"), worker(2, "m")}, affinity.ClientAborted, "10.0.0.2:8000", fleet.OnRank(2, 0)},
		{"answered by the picked worker", []fleet.Worker{worker(1, "m"), worker(2, "m")}, affinity.Completed, "10.0.0.1:8000", fleet.OnRank(1, 0)},
		{"served by nobody knows whom", []fleet.Worker{worker(1, "m"), worker(2, "m")}, affinity.Completed, "", fleet.OnRank(1, 0)},
		{"failed elsewhere", []fleet.Worker{worker(1, "m"), worker(2, "m")}, affinity.UpstreamFailed, "10.0.0.2:8000", fleet.OnRank(1, 0)},
		{"elsewhere, but never there", []fleet.Worker{worker(1, "m"), worker(2, "m")}, affinity.NeverSent, "10.0.0.2:8000", fleet.OnRank(1, 0)},
		{"answered by no worker of ours", []fleet.Worker{worker(1, "m"), worker(2, "m")}, affinity.Completed, "10.9.9.9:8000", fleet.OnRank(1, 0)},
		{"answered by another model's worker", []fleet.Worker{worker(1, "m"), worker(2, "other")}, affinity.Completed, "10.0.0.2:8000", fleet.OnRank(1, 0)},
		{"answered elsewhere on the same rank", []fleet.Worker{ranked(1, 2), ranked(2, 3)}, affinity.Completed, "10.0.0.2:8000", fleet.OnRank(2, 1)},
		{"answered elsewhere on a rank that nobody knows", []fleet.Worker{ranked(1, 4), ranked(2, 2)}, affinity.Completed, "10.0.0.2:8000", fleet.OnRank(1, 3)},
		{"answered by a worker of one rank", []fleet.Worker{ranked(1, 2), worker(2, "m")}, affinity.Completed, "10.0.0.2:8000", fleet.OnRank(2, 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, routing.Config{ModelHeader: "x-model", ExplicitTarget: true, DefaultModel: "m"}, affinity.Config{Mode: affinity.Soft}, tt.workers...)
			rank := tt.workers[0].Ranks - 1 // the last
			if tt.workers[1].Ranks == 3 {
				rank = 1
			}
			first := r.mustRoute(headers{"x-session-id": "s", "x-worker-instance-id": "1", "x-dp-rank": fmt.Sprint(rank)}, "")
			first.Release(affinity.Completed)
			rt := r.mustRoute(headers{"x-session-id": "s"}, "")
			rt.ReleaseServed(tt.outcome, tt.served)
			rt.ReleaseServed(affinity.Completed, "10.0.0.2:8000") // only the first call counts
			if got, reason := r.boundOn("s"); got != tt.want || reason != routing.Bound {
				t.Errorf("next turn: %v, %v; want %v, bound", got, reason, tt.want)
			}
			for _, target := range []fleet.Target{fleet.OnRank(1, rank), tt.want} {
				if n := r.router.Live(target); n != 0 {
					t.Errorf("%d live requests on %v", n, target)
				}
			}
		})
	}
}

func TestAHardBindingStaysWhoeverServed(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	bound, _ := r.boundOn("s")
	rt := r.mustRoute(headers{"x-session-id": "s"}, "")
	rt.ReleaseServed(affinity.Completed, fmt.Sprintf("10.0.0.%d:8000", 3-bound.Worker))
	if got, reason := r.boundOn("s"); got != bound || reason != routing.Bound {
		t.Errorf("next turn: %v, %v; want %v, bound", got, reason, bound)
	}
}

// TestABindingFailsOverWhenItsWorkerLeftAfterThePick: the request had been
// picked for a worker that then left, and was served by another one.
func TestABindingFailsOverWhenItsWorkerLeftAfterThePick(t *testing.T) {
	for _, mode := range []affinity.Mode{affinity.Hard, affinity.Soft} {
		r := newRig(t, routing.Config{}, affinity.Config{Mode: mode}, worker(1, "m"), worker(2, "m"), worker(3, "m"))
		bound, _ := r.boundOn("s")
		other := bound.Worker%3 + 1
		rt := r.mustRoute(headers{"x-session-id": "s"}, "")
		r.live.Publish(fleet.NewView([]fleet.Worker{worker(other, "m"), worker(other%3+1, "m")}))
		rt.ReleaseServed(affinity.Completed, fmt.Sprintf("10.0.0.%d:8000", other))
		if got, reason := r.boundOn("s"); got != fleet.OnRank(other, 0) || reason != routing.Bound {
			t.Errorf("%v: next turn: %v, %v; want worker %d, bound", mode, got, reason, other)
		}
	}
}

func TestAGoneWorkersSessionIsNotMovedByADispatchWhereItMustStay(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{WhenGone: affinity.Fail}, worker(1, "m"))
	r.boundOn("s")
	rt := r.mustRoute(headers{"x-session-id": "s"}, "")
	r.live.Publish(fleet.NewView([]fleet.Worker{worker(2, "m")}))
	rt.ReleaseServed(affinity.Completed, "10.0.0.2:8000")
	r.wantRefused(headers{"x-session-id": "s"}, "", routing.Unavailable, routing.WorkerGone, "gone")
}

func TestAnUnpinnedRequestBindsNothingWhoeverServes(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{Mode: affinity.Soft}, worker(1, "m"), worker(2, "m"))
	rt := r.mustRoute(headers{}, "")
	rt.ReleaseServed(affinity.Completed, fmt.Sprintf("10.0.0.%d:8000", 3-rt.Target.Worker))
	if n := r.router.Live(rt.Target); n != 0 {
		t.Errorf("%d live requests", n)
	}
}

// TestOnlyAFirstRequestThatNeverArrivedUnbinds: rule 4 of the spec, by outcome.
func TestOnlyAFirstRequestThatNeverArrivedUnbinds(t *testing.T) {
	for _, outcome := range []affinity.Outcome{affinity.Completed, affinity.ClientAborted, affinity.UpstreamFailed, affinity.NeverSent} {
		r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
		r.mustRoute(headers{"x-session-id": "s"}, "").Release(outcome)
		want := routing.Bound
		if outcome == affinity.NeverSent {
			want = routing.New
		}
		if _, reason := r.boundOn("s"); reason != want {
			t.Errorf("after a first request that was %v: reason %v, want %v", outcome, reason, want)
		}
		r.mustRoute(headers{"x-session-id": "s"}, "").Release(outcome)
		if _, reason := r.boundOn("s"); reason != routing.Bound {
			t.Errorf("after a later request that was %v: reason %v, want bound", outcome, reason)
		}
	}
}

func TestAFailedFirstRequestUnbindsNobodyElse(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	first := r.mustRoute(headers{"x-session-id": "s"}, "")
	second := r.mustRoute(headers{"x-session-id": "s"}, "")
	first.Release(affinity.NeverSent)
	second.Release(affinity.Completed)
	if got, reason := r.boundOn("s"); got != second.Target || reason != routing.Bound {
		t.Errorf("%v, %v; want %v, bound", got, reason, second.Target)
	}
}

// TestASubsetMovesASoftBindingOnly: a soft session follows into the gateway's
// subset and stays there; a hard one refuses that request and stays as it was.
func TestASubsetMovesASoftBindingOnly(t *testing.T) {
	for _, mode := range []affinity.Mode{affinity.Hard, affinity.Soft} {
		r := newRig(t, routing.Config{}, affinity.Config{Mode: mode}, worker(1, "m"), worker(2, "m"))
		bound, _ := r.boundOn("s")
		other := 3 - bound.Worker
		rt, err := r.router.Route(context.Background(), &routing.Request{
			Session: "s", Group: fleet.DefaultName, Restricted: true, Subset: []string{fmt.Sprintf("10.0.0.%d:8000", other)},
		})
		want := bound
		if mode == affinity.Soft {
			want = fleet.OnRank(other, 0)
			if err != nil || rt.Target != want {
				t.Fatalf("soft: %+v, %v; want %v", rt, err, want)
			}
			rt.Release(affinity.Completed)
		} else if err == nil {
			t.Errorf("hard: routed to %v", rt.Target)
		}
		if got, reason := r.boundOn("s"); got != want || reason != routing.Bound {
			t.Errorf("%v: next turn %v, %v; want %v, bound", mode, got, reason, want)
		}
	}
}
