package routing_test

import (
	"testing"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
	"mooring/routing"
)

// A worker that serves several models has one cache, which is known in the index
// of its first model: it is found under each of its models, beside workers whose
// first model is another one.
func TestACacheIsFoundUnderEachModelOfItsWorker(t *testing.T) {
	set := index.NewSet(index.Config{})
	cfg := routing.Config{Index: set, Controller: kvstate.NewController(), Weights: routing.DefaultWeights()}
	k := &kvRig{controller: cfg.Controller}
	k.rig = newRig(t, cfg, affinity.Config{}, worker(1, "m", "alias"), worker(2, "alias"), worker(3, "m", "alias"))
	open := func(model string, size int) *index.Index {
		ix := set.Open(fleet.Partition{Model: model, Group: fleet.DefaultName})
		ix.SetBlockSize(size)
		return ix
	}
	of := map[string]*index.Index{"m": open("m", blockSize), "alias": open("alias", blockSize)}
	for _, id := range []fleet.WorkerID{1, 2, 3} {
		k.projects(rankOf(id, 0), false)
	}
	k.index = of["m"]
	k.holds(rankOf(1, 0), kvstate.Device, plain, run(0, 20)...)
	k.index = of["alias"]
	k.holds(rankOf(2, 0), kvstate.Device, plain, run(100, 20)...)

	alias := func(tokens []uint32) string { return `{"model":"alias",` + idsBody(tokens)[len(`{"model":"m",`):] }
	k.wantWorker("the first model", idsBody(run(0, 20)), 1, 5)
	k.wantWorker("an alias", alias(run(0, 20)), 1, 5)
	k.wantWorker("an alias that is somebody's first model", alias(run(100, 20)), 2, 5)

	other := index.NewSet(index.Config{})
	home := other.Open(fleet.Partition{Model: "m", Group: fleet.DefaultName})
	home.SetBlockSize(blockSize)
	cfg.Index, k.index = other, home
	other.Open(fleet.Partition{Model: "alias", Group: fleet.DefaultName}).SetBlockSize(2 * blockSize)
	k.rig = newRig(t, cfg, affinity.Config{}, worker(1, "m", "alias"), worker(2, "alias"))
	k.holds(rankOf(1, 0), kvstate.Device, plain, run(0, 20)...)
	k.wantWorker("beside blocks of another size", alias(run(0, 20)), 1, 5)
}
