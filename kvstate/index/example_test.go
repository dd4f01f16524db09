package index_test

import (
	"fmt"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/blockhash"
	"mooring/kvstate/index"
)

// A worker announces two blocks; a prompt that begins with the first of them finds
// it there, once the worker's cache owner is projected.
func Example() {
	set := index.NewSet(index.Config{})
	ix := set.Open(fleet.Partition{Model: "llama", Group: "default"})
	ix.SetBlockSize(4)

	worker := kvstate.Worker{WorkerID: 7}
	stored := blockhash.Append(nil, []uint32{1, 2, 3, 4, 5, 6, 7, 8}, ix.BlockSize(), blockhash.Seed("", ""))
	ix.Store(index.Owner{Key: kvstate.WorkerKey(worker)}, kvstate.Device, 0, false, []kvstate.Block{
		{External: 0xaa, Local: stored[0]},
		{External: 0xbb, Local: stored[1]},
	})

	projection, _ := kvstate.Aggregate([]kvstate.Resolution{{State: kvstate.Ready, Worker: worker}})
	prompt := blockhash.Append(nil, []uint32{1, 2, 3, 4, 9, 9, 9, 9}, ix.BlockSize(), blockhash.Seed("", ""))
	var m index.Matches
	ix.Match(projection, prompt, &m)
	for _, found := range m.All() {
		fmt.Println(found.Worker, found.Device)
	}
	// Output: 7:0 1
}
