package routing_test

import (
	"fmt"
	"strings"
	"testing"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/routing"
)

// allSessionHeaders is the default of the configuration.
var allSessionHeaders = []string{"x-dynamo-session-id", "x-claude-code-session-id", "thread-id", "x-deepseek-harness-session-id", "x-session-id"}

// TestEveryHeaderFamilyHasItsParent: a child binds under its parent's group key,
// and the families do not read each other's headers.
func TestEveryHeaderFamilyHasItsParent(t *testing.T) {
	parents := map[string]string{
		"x-dynamo-session-id":           "x-dynamo-parent-session-id",
		"thread-id":                     "x-codex-parent-thread-id",
		"x-deepseek-harness-session-id": "x-deepseek-harness-parent-session-id",
		"x-session-id":                  "x-parent-session-id",
	}
	r := newRig(t, routing.Config{SessionHeaders: allSessionHeaders}, affinity.Config{}, worker(1, "m"))
	for session, parent := range parents {
		for other, wrong := range parents {
			h := headers{session: "child", wrong: "p"}
			want := "child"
			if other == session {
				want = affinity.GroupKey("p")
			}
			if req, err := r.router.ReadHeaders(h.values); err != nil || req.Session != want {
				t.Errorf("%v: session %q, %v; want %q", h, req.Session, err, want)
			}
		}
		h := headers{session: "child", parent: strings.Repeat("p", 257)}
		r.wantRefused(h, "", routing.BadRequest, routing.Invalid, parent)
	}
}

func TestTheFirstFamilyThatMatchesWins(t *testing.T) {
	r := newRig(t, routing.Config{SessionHeaders: allSessionHeaders}, affinity.Config{}, worker(1, "m"))
	h := make(headers)
	for i := len(allSessionHeaders) - 1; i >= 0; i-- {
		h[allSessionHeaders[i]] = fmt.Sprint("id-", i)
		if req, err := r.router.ReadHeaders(h.values); err != nil || req.Session != h[allSessionHeaders[i]] {
			t.Errorf("%v: session %q, %v; want that of %s", h, req.Session, err, allSessionHeaders[i])
		}
	}
	h["x-dynamo-session-id"] = " \t"
	if req, err := r.router.ReadHeaders(h.values); err != nil || req.Session != "id-1" {
		t.Errorf("with a blank first header: session %q, %v; want the second's", req.Session, err)
	}
}

// TestSeveralValuesOfOneHeaderHaveOneRule is B18 of cases.md.
func TestSeveralValuesOfOneHeaderHaveOneRule(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"))
	for _, tt := range []struct {
		values []string
		want   string
	}{
		{[]string{"s1", "s2"}, "s1"}, {[]string{"s2", "s1"}, "s2"}, {[]string{"s1,s2"}, "s1,s2"}, {[]string{"s1", "s1"}, "s1"}, {[]string{" ", "s2"}, "s2"},
	} {
		for range 1000 {
			req, err := r.router.ReadHeaders(func(name string) []string {
				if name == "x-session-id" {
					return tt.values
				}
				return nil
			})
			if err != nil || req.Session != tt.want {
				t.Fatalf("%q: session %q, %v; want %q", tt.values, req.Session, err, tt.want)
			}
		}
	}
}

func TestSiblingsShareABindingAndTheirParentDoesNot(t *testing.T) {
	r := newRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"), worker(3, "m"))
	child := func(id, parent string) headers { return headers{"x-session-id": id, "x-parent-session-id": parent} }
	first := r.mustRoute(child("a", "p"), "")
	if second := r.mustRoute(child("b", "p"), ""); second.Target != first.Target || second.Reason != routing.Bound {
		t.Errorf("a sibling: %v, %v; want %v, bound", second.Target, second.Reason, first.Target)
	}
	if parent := r.mustRoute(headers{"x-session-id": "p"}, ""); parent.Reason != routing.New {
		t.Errorf("the parent: reason %v, want new", parent.Reason)
	}
	if other := r.mustRoute(child("a", "q"), ""); other.Reason != routing.New {
		t.Errorf("a child of another parent: reason %v, want new", other.Reason)
	}
	r.wantRefused(headers{"x-session-id": affinity.GroupKey("p")}, "", routing.BadRequest, routing.Invalid, "session id")
}

// TestAChildThatNamesItsWorkerLeavesItsGroupAlone: it is neither refused by the
// group's binding nor can it move that.
func TestAChildThatNamesItsWorkerLeavesItsGroupAlone(t *testing.T) {
	r := newRig(t, routing.Config{ExplicitTarget: true}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	sibling := headers{"x-session-id": "a", "x-parent-session-id": "p"}
	group := r.mustRoute(sibling, "")
	other := 3 - group.Target.Worker
	named := r.mustRoute(headers{"x-session-id": "b", "x-parent-session-id": "p", "x-worker-instance-id": other.String()}, "")
	if named.Target.Worker != other || named.Reason != routing.Explicit || named.Session != "b" {
		t.Errorf("the child that names its worker: %v, %v as %q", named.Target, named.Reason, named.Session)
	}
	if again := r.mustRoute(sibling, ""); again.Target != group.Target || again.Reason != routing.Bound {
		t.Errorf("its sibling: %v, %v; want %v, bound", again.Target, again.Reason, group.Target)
	}
}

func TestRankZeroIsARank(t *testing.T) {
	r := newRig(t, routing.Config{ExplicitTarget: true}, affinity.Config{}, ranked(1, 4))
	h := headers{"x-session-id": "s", "x-worker-instance-id": "1", "x-dp-rank": "0"}
	r.mustRoute(h, "").Release(affinity.Completed)
	if got, reason := r.boundOn("s"); got != fleet.OnRank(1, 0) || reason != routing.Bound {
		t.Errorf("bound to %v, %v; want 1:0, bound", got, reason)
	}
	h["x-dp-rank"] = "1"
	r.wantRefused(h, "", routing.Conflict, routing.Explicit, "bound")
}

// TestABindingKeepsItsRankWhateverTheLoad: a bound session goes to its rank, and
// one bound to a worker alone leaves the rank to be chosen elsewhere.
func TestABindingKeepsItsRankWhateverTheLoad(t *testing.T) {
	r := newRig(t, routing.Config{ExplicitTarget: true}, affinity.Config{}, ranked(1, 2), ranked(2, 2))
	r.mustRoute(headers{"x-session-id": "s", "x-worker-instance-id": "2", "x-dp-rank": "1"}, "").Release(affinity.Completed)
	r.mustRoute(headers{"x-session-id": "w", "x-worker-instance-id": "1"}, "").Release(affinity.Completed)
	for range 20 { // load where the session is, which stays
		r.mustRoute(headers{"x-session-id": "s"}, "")
	}
	if got, _ := r.boundOn("s"); got != fleet.OnRank(2, 1) {
		t.Errorf("the ranked session went to %v", got)
	}
	if got, _ := r.boundOn("w"); got != fleet.WorkerOnly(1) {
		t.Errorf("the worker-only session went to %v", got)
	}
}

func TestABindingExcusesNoInvalidTarget(t *testing.T) {
	r := newRig(t, routing.Config{ExplicitTarget: true}, affinity.Config{}, worker(1, "m"), worker(2, "other"))
	r.mustRoute(headers{"x-session-id": "s"}, `{"model":"m"}`).Release(affinity.Completed)
	for _, id := range []string{"77", "2"} {
		h := headers{"x-session-id": "s", "x-worker-instance-id": id}
		r.wantRefused(h, `{"model":"m"}`, routing.BadRequest, routing.Invalid, "does not serve")
	}
	r.wantRefused(headers{"x-session-id": "s", "x-worker-instance-id": "1", "x-dp-rank": "1"}, `{"model":"m"}`, routing.BadRequest, routing.Invalid, "rank")
	if rt := r.mustRoute(headers{"x-session-id": "s"}, `{"model":"m"}`); rt.Reason != routing.Bound {
		t.Errorf("afterwards: reason %v, want bound", rt.Reason)
	}
}

// TestGroupsKeepTheirBindingsApart: one session id in two routing groups, as for
// prefill and decode, has two bindings.
func TestGroupsKeepTheirBindingsApart(t *testing.T) {
	prefill, decode := worker(1, "m"), worker(2, "m")
	prefill.Group, decode.Group = "prefill", "decode"
	r := newRig(t, routing.Config{}, affinity.Config{}, prefill, decode)
	for _, want := range []routing.Reason{routing.New, routing.Bound} {
		for id, group := range map[fleet.WorkerID]string{1: "prefill", 2: "decode"} {
			rt := r.mustRoute(headers{"x-session-id": "s", "x-routing-group": group}, "")
			if rt.Target.Worker != id || rt.Reason != want {
				t.Errorf("group %s: %v, %v; want worker %d, %v", group, rt.Target, rt.Reason, id, want)
			}
			rt.Release(affinity.Completed)
		}
	}
}

// TestAFloodOfNewIDsHarmsNoSessionInUse is B46 of cases.md.
func TestAFloodOfNewIDsHarmsNoSessionInUse(t *testing.T) {
	const limit, flood = 1000, 20_000
	r := newRig(t, routing.Config{}, affinity.Config{MaxSessions: limit}, worker(1, "m"), worker(2, "m"))
	kept := make(map[string]fleet.Target)
	for i := range limit {
		s := fmt.Sprint("kept", i)
		kept[s], _ = r.boundOn(s)
	}
	for i := range flood {
		if _, reason := r.boundOn(fmt.Sprint("flood", i)); reason != routing.TableFull {
			t.Fatalf("newcomer %d: reason %v, want table_full", i, reason)
		}
	}
	for s, want := range kept {
		if got, reason := r.boundOn(s); got != want || reason != routing.Bound {
			t.Errorf("%s: %v, %v; want %v, bound", s, got, reason, want)
		}
	}
}
