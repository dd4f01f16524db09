package simworker

import (
	"cmp"
	"maps"
	"slices"

	"mooring/kvstate"
)

// maxDumpBlocks bounds the blocks of one event of a dump.
const maxDumpBlocks = 128

// residency is the blocks that an agent holds in one domain. The owner locks.
type residency struct {
	blocks map[uint64]resident // by external hash
	serial uint64
}

// resident is one held block.
type resident struct {
	parent    uint64 // external hash, if hasParent
	hasParent bool
	local     uint64
	serial    uint64 // orders a dump
}

// store adds a chain of blocks.
func (r *residency) store(s *kvstate.StoreData) {
	if r.blocks == nil {
		r.blocks = make(map[uint64]resident)
	}
	parent, hasParent := s.Parent, s.HasParent
	for _, b := range s.Blocks {
		r.serial++
		r.blocks[b.External] = resident{parent, hasParent, b.Local, r.serial}
		parent, hasParent = b.External, true
	}
}

// remove takes blocks out.
func (r *residency) remove(external []uint64) {
	for _, h := range external {
		delete(r.blocks, h)
	}
}

// clear takes all blocks out.
func (r *residency) clear() { r.blocks = nil }

// dump returns the whole as chains, parents before children. A block whose
// parent is not held comes with that parent all the same.
func (r *residency) dump() []kvstate.StoreData {
	order := slices.SortedFunc(maps.Keys(r.blocks), func(a, b uint64) int {
		return cmp.Compare(r.blocks[a].serial, r.blocks[b].serial)
	})
	var out []kvstate.StoreData
	done := make(map[uint64]bool, len(order))
	var last uint64 // the block emitted last
	for _, h := range order {
		var path []uint64 // from h up to a block that is out, or has no parent here
		for !done[h] {
			done[h] = true
			path = append(path, h)
			b := r.blocks[h]
			if _, held := r.blocks[b.parent]; !b.hasParent || !held {
				break
			}
			h = b.parent
		}
		for _, h := range slices.Backward(path) {
			b := r.blocks[h]
			n := len(out)
			if n == 0 || !b.hasParent || b.parent != last || len(out[n-1].Blocks) == maxDumpBlocks {
				out = append(out, kvstate.StoreData{Parent: b.parent, HasParent: b.hasParent})
				n++
			}
			out[n-1].Blocks = append(out[n-1].Blocks, kvstate.Block{External: h, Local: b.local})
			last = h
		}
	}
	return out
}
