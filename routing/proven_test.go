package routing_test

import (
	"slices"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/routing"
)

// While a request runs, its prompt stops being prompt work as soon as the engine
// tells that it holds it: else the next session with the same prefix would go to a
// worker that has to compute it again.
func TestARunningPromptIsWorkUntilItsBlocksAreThere(t *testing.T) {
	k := newKVRig(t, routing.Config{}, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	k.projects(rankOf(1, 0), false)
	k.projects(rankOf(2, 0), false)
	prefix := run(0, 400)
	first := k.opens(idsBody(slices.Concat(prefix, run(1000, 4))))
	holder := first.Target.Worker
	next := func(tail int) *routing.Route { return k.opens(idsBody(slices.Concat(prefix, run(tail, 4)))) }

	beside := next(2000)
	if beside.Target.Worker == holder {
		t.Errorf("nothing is known to be there, and the second prompt goes behind the first")
	}
	beside.Release(affinity.Completed)

	k.holds(rankOf(holder, 0), kvstate.Device, plain, prefix...)
	for tail := 3000; tail < 3100; tail += 10 {
		rt := next(tail)
		if rt.Target.Worker != holder || rt.Overlap != 100 {
			t.Fatalf("with the prefix on worker %d: to %v with overlap %d", holder, rt.Target, rt.Overlap)
		}
		rt.Release(affinity.Completed)
	}

	// A prompt that shares nothing cannot show it: the first one still counts.
	other := k.opens(idsBody(run(5000, 400)))
	if other.Target.Worker == holder {
		t.Errorf("a prompt of its own goes behind the one that runs")
	}
}

// What other replicas' requests hold in use is no burden for a prompt of which the
// same blocks are there.
func TestAPrefixInUseByOthersIsNoBurden(t *testing.T) {
	cfg := routing.Config{Figures: func(target fleet.Target) (routing.Figures, bool) {
		if target.Worker == 1 {
			return routing.Figures{Running: 1, KVUse: 0.11, KVBlocks: 1000, At: time.Now()}, true
		}
		return routing.Figures{KVBlocks: 1000, At: time.Now()}, true
	}}
	k := newKVRig(t, cfg, affinity.Config{}, worker(1, "m"), worker(2, "m"))
	k.projects(rankOf(1, 0), false)
	k.projects(rankOf(2, 0), false)
	k.holds(rankOf(1, 0), kvstate.Device, plain, run(0, 400)...)
	k.wantWorker("the prefix that others use", idsBody(run(0, 404)), 1, 100)
	if rt := k.opens(idsBody(run(5000, 404))); rt.Target.Worker != 2 {
		t.Errorf("a prompt that is nowhere goes to %v, beside the requests of others", rt.Target)
	}
}
