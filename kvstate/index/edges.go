package index

import (
	"math/bits"
	"sync/atomic"
)

// edges finds the children of a node but for its first, by the parent's id and the
// child's local hash. find may be called by anybody, the rest under Index.mu.
//
// There are 256 small tables, so that to rebuild one takes microseconds. Writers
// fill and bury slots in place; a rebuild makes a new table and swaps it in, and
// look-ups that are still in the old one miss at most what is stored just then.
type edges struct {
	shards [256]edgeShard
	seed   uint64
}

type edgeShard struct {
	table atomic.Pointer[edgeTable]
	live  int // children
	used  int // slots that are not empty: children and graves
}

// edgeTable is open addressing with linear probing; at least a quarter is empty.
// A slot is 0 (empty), grave, or the low half of the hash above the child's id.
type edgeTable struct{ slots []atomic.Uint64 }

const grave = ^uint64(0)

// hash spreads (parent, local): the top 8 bits choose the shard, the low 32 the slot.
func (e *edges) hash(parent uint32, local uint64) uint64 {
	return mix(local ^ e.seed ^ bits.RotateLeft64(uint64(parent)*0x9e3779b97f4a7c15, 31))
}

// mix is a bijection with every output bit depending on every input bit.
func mix(x uint64) uint64 {
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32
}

// home maps the low half of a hash to one of n places, evenly for any n.
func home(hash uint64, n int) int { return int(uint64(uint32(hash)) * uint64(n) >> 32) }

func (e *edges) find(nodes *arena[node], parent uint32, local uint64) (uint32, *node) {
	h := e.hash(parent, local)
	t := e.shards[h>>56].table.Load()
	if t == nil {
		return 0, nil
	}
	for i := home(h, len(t.slots)); ; i++ {
		if i == len(t.slots) {
			i = 0
		}
		s := t.slots[i].Load()
		if s == 0 {
			return 0, nil
		}
		if s>>32 != h&0xffffffff || s == grave {
			continue
		}
		if n := nodes.at(uint32(s)); n.local == local && n.parent == parent {
			return uint32(s), n
		}
	}
}

func (e *edges) insert(parent uint32, local uint64, id uint32) {
	h := e.hash(parent, local)
	s := &e.shards[h>>56]
	t := s.table.Load()
	if t == nil || (s.used+1)*4 > len(t.slots)*3 {
		t = s.rebuild()
	}
	for i := home(h, len(t.slots)); ; i++ {
		if i == len(t.slots) {
			i = 0
		}
		if t.slots[i].Load() == 0 {
			t.slots[i].Store(h<<32 | uint64(id))
			break
		}
	}
	s.live++
	s.used++
}

// remove buries the child; it must be there.
func (e *edges) remove(parent uint32, local uint64, id uint32) {
	h := e.hash(parent, local)
	s := &e.shards[h>>56]
	t := s.table.Load()
	for i := home(h, len(t.slots)); ; i++ {
		if i == len(t.slots) {
			i = 0
		}
		if t.slots[i].Load() == h<<32|uint64(id) {
			t.slots[i].Store(grave)
			break
		}
	}
	s.live--
	switch {
	case s.live == 0:
		s.table.Store(nil)
		s.used = 0
	case s.live*8 < len(t.slots) && len(t.slots) > edgesLeast:
		s.rebuild()
	}
}

// edgesLeast is the size of the smallest table.
const edgesLeast = 8

// rebuild replaces the table by one without graves in which the children, and one
// more, fill at most two thirds.
func (s *edgeShard) rebuild() *edgeTable {
	t := &edgeTable{slots: make([]atomic.Uint64, max(edgesLeast, (s.live+1)*2))}
	if old := s.table.Load(); old != nil {
		for i := range old.slots {
			v := old.slots[i].Load()
			if v == 0 || v == grave {
				continue
			}
			at := home(v>>32, len(t.slots))
			for t.slots[at].Load() != 0 {
				if at++; at == len(t.slots) {
					at = 0
				}
			}
			t.slots[at].Store(v)
		}
	}
	s.used = s.live
	s.table.Store(t)
	return t
}
