package routing_test

import (
	"fmt"
	"strings"
	"testing"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/blockhash"
	"mooring/kvstate/index"
	"mooring/routing"
)

const blockSize = 4

// kvRig is a rig whose workers' KV state the test sets by hand.
type kvRig struct {
	*rig
	index      *index.Index
	controller *kvstate.Controller
	externals  uint64
}

// newKVRig makes model m of the workers a partition with KV state.
func newKVRig(t *testing.T, cfg routing.Config, table affinity.Config, workers ...fleet.Worker) *kvRig {
	t.Helper()
	cfg.Index, cfg.Controller = index.NewSet(index.Config{MaxBlocks: 100_000}), kvstate.NewController()
	if cfg.Weights == (routing.Weights{}) {
		cfg.Weights = routing.DefaultWeights()
	}
	k := &kvRig{index: cfg.Index.Open(fleet.Partition{Model: "m", Group: fleet.DefaultName}), controller: cfg.Controller}
	if !k.index.SetBlockSize(blockSize) {
		t.Fatal("the size of a block is not taken")
	}
	k.rig = newRig(t, cfg, table, workers...)
	return k
}

func rankOf(id fleet.WorkerID, rank uint32) kvstate.Worker {
	return kvstate.Worker{WorkerID: uint64(id), DPRank: rank}
}

// projects makes w's blocks count.
func (k *kvRig) projects(w kvstate.Worker, holed bool) {
	k.controller.Update(kvstate.Resolution{Owner: ownerOn(w), State: kvstate.Ready, Worker: w, Holed: holed})
}

func ownerOn(w kvstate.Worker) kvstate.CacheOwnerID {
	var owner kvstate.CacheOwnerID
	owner.Slot.Digest = [16]byte(kvstate.WorkerKey(w))
	return owner
}

// holds stores a prompt in w's own cache, by the engine's own hashes.
func (k *kvRig) holds(w kvstate.Worker, tier kvstate.Tier, seed uint64, tokens ...uint32) {
	k.t.Helper()
	var blocks []kvstate.Block
	for _, local := range blockhash.Append(nil, tokens, blockSize, seed) {
		k.externals++ // no two stores agree on an external hash
		blocks = append(blocks, kvstate.Block{External: k.externals, Local: local})
	}
	out := k.index.Store(index.Owner{Key: kvstate.WorkerKey(w)}, tier, 0, false, blocks)
	if out.Stored != len(blocks) {
		k.t.Fatalf("store of %d blocks: %+v", len(blocks), out)
	}
}

var plain = blockhash.Seed("", "")

// run is n tokens from first on.
func run(first, n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(first + i)
	}
	return tokens
}

func idsBody(tokens []uint32) string {
	return strings.ReplaceAll(fmt.Sprintf(`{"model":"m","prompt":%v}`, tokens), " ", ",")
}

// opens routes the first request of a session that nobody has used.
func (k *kvRig) opens(body string) *routing.Route {
	k.t.Helper()
	k.externals++
	return k.mustRoute(headers{"x-session-id": fmt.Sprint("opened-", k.externals)}, body)
}

// wantWorker opens several sessions and wants all of them on one worker.
func (k *kvRig) wantWorker(what, body string, id fleet.WorkerID, overlap int) {
	k.t.Helper()
	for range 8 {
		rt := k.opens(body)
		if rt.Target.Worker != id || rt.Overlap != overlap || rt.Reason != routing.New {
			k.t.Fatalf("%s: on %v with overlap %d, %v; want worker %d with %d, new", what, rt.Target, rt.Overlap, rt.Reason, id, overlap)
		}
		rt.Release(affinity.Completed)
	}
}

// wantSpread opens many sessions and wants all workers used.
func (k *kvRig) wantSpread(what, body string, reason routing.Reason) {
	k.t.Helper()
	used := make(map[fleet.WorkerID]int)
	for range 64 {
		rt := k.opens(body)
		if rt.Reason != reason || rt.Overlap != 0 {
			k.t.Fatalf("%s: %v with overlap %d, want %v with 0", what, rt.Reason, rt.Overlap, reason)
		}
		used[rt.Target.Worker]++
		rt.Release(affinity.Completed)
	}
	if n := len(k.live.View().Workers()); len(used) != n {
		k.t.Errorf("%s: requests by worker are %v, want all %d used", what, used, n)
	}
}
