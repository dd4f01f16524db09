package simworker

import (
	"container/list"
	"slices"
)

// hostPool is the tier below a rank's cache: copies of full blocks in host
// memory, made when a block becomes full and kept when it leaves the cache. As
// a KV connector's pool it belongs to the slot, not to the engine: a restart
// of the engine leaves it. The owner locks.
//
// Invariant: len(blocks) == order.Len() <= capacity.
type hostPool struct {
	capacity int // 0: there is no such tier
	blocks   map[blockKey]*list.Element
	order    list.List // of blockKey, least recently used in front
}

func newHostPool(capacity int) *hostPool {
	return &hostPool{capacity: capacity, blocks: make(map[blockKey]*list.Element)}
}

// load returns how many of keys, from the front, are there, and makes them the
// most recently used.
func (p *hostPool) load(keys []blockKey) int {
	n := 0
	for n < len(keys) && p.blocks[keys[n]] != nil {
		n++
	}
	p.touch(keys[:n])
	return n
}

// touch makes the blocks of a sequence the most recently used, the first most
// of all: a block is of no use without those before it.
func (p *hostPool) touch(keys []blockKey) {
	for _, key := range slices.Backward(keys) {
		if e := p.blocks[key]; e != nil {
			p.order.MoveToBack(e)
		}
	}
}

// store puts the blocks keys[s.from:s.to] of a sequence in. It returns the runs
// that are new and what had to leave for them. At most capacity blocks of a
// call are stored, those at the front.
func (p *hostPool) store(keys []blockKey, s span) (added []span, evicted []blockKey) {
	s.to = min(s.to, s.from+p.capacity)
	for i := s.from; i < s.to; i++ {
		if p.blocks[keys[i]] != nil {
			continue
		}
		if n := len(added); n > 0 && added[n-1].to == i {
			added[n-1].to++
		} else {
			added = append(added, span{i, i + 1})
		}
		p.blocks[keys[i]] = p.order.PushBack(keys[i])
	}
	p.touch(keys[s.from:s.to])
	for p.order.Len() > p.capacity {
		front := p.order.Front()
		key := front.Value.(blockKey)
		p.order.Remove(front)
		delete(p.blocks, key)
		evicted = append(evicted, key)
	}
	p.touch(keys[:s.to])
	return added, evicted
}

// clear forgets every block.
func (p *hostPool) clear() {
	clear(p.blocks)
	p.order.Init()
}
