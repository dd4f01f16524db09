package simworker

import "container/list"

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

// touch reports whether a block is there, and makes it the most recently used.
func (p *hostPool) touch(key blockKey) bool {
	e, ok := p.blocks[key]
	if ok {
		p.order.MoveToBack(e)
	}
	return ok
}

// store puts the blocks keys[s.from:s.to] in. It returns the runs that are new
// and what had to leave for them. At most capacity blocks of a call are stored,
// those at the front.
func (p *hostPool) store(keys []blockKey, s span) (added []span, evicted []blockKey) {
	for i := s.from; i < min(s.to, s.from+p.capacity); i++ {
		if p.touch(keys[i]) {
			continue
		}
		if n := len(added); n > 0 && added[n-1].to == i {
			added[n-1].to++
		} else {
			added = append(added, span{i, i + 1})
		}
		p.blocks[keys[i]] = p.order.PushBack(keys[i])
	}
	for p.order.Len() > p.capacity {
		front := p.order.Front()
		key := front.Value.(blockKey)
		p.order.Remove(front)
		delete(p.blocks, key)
		evicted = append(evicted, key)
	}
	return added, evicted
}

// clear forgets every block.
func (p *hostPool) clear() {
	clear(p.blocks)
	p.order.Init()
}
