package benchhit

import "container/list"

// prefixCache is a worker's block pool: full blocks by the hash of everything up
// to their end, the least recently used one first to go.
type prefixCache struct {
	capacity int
	blocks   map[uint64]*list.Element // of uint64
	order    list.List                // least recently used in front
	changed  func(change)             // told of every change, in order; may be nil
}

// change is blocks that were stored behind a parent, or removed.
type change struct {
	removed   bool
	parent    uint64 // of the first block; with hasParent
	hasParent bool
	at        int // position of the first block in its prompt
	blocks    []uint64
}

func newPrefixCache(capacity int, changed func(change)) *prefixCache {
	return &prefixCache{capacity: capacity, blocks: make(map[uint64]*list.Element), changed: changed}
}

// matched returns how many blocks at the front of chain are there.
func (c *prefixCache) matched(chain []uint64) int {
	for i, hash := range chain {
		if _, ok := c.blocks[hash]; !ok {
			return i
		}
	}
	return len(chain)
}

// use makes all of chain the most recently used blocks, its beginning the very
// last to go, and stores what is not there.
func (c *prefixCache) use(chain []uint64) {
	chain = chain[:min(len(chain), c.capacity)]
	held := c.matched(chain)
	for i := len(chain) - 1; i >= 0; i-- {
		if e, ok := c.blocks[chain[i]]; ok {
			c.order.MoveToBack(e)
		} else {
			c.blocks[chain[i]] = c.order.PushBack(chain[i])
		}
	}
	var gone []uint64
	for len(c.blocks) > c.capacity {
		oldest := c.order.Remove(c.order.Front()).(uint64)
		delete(c.blocks, oldest)
		gone = append(gone, oldest)
	}
	if c.changed == nil {
		return
	}
	if len(gone) > 0 {
		c.changed(change{removed: true, blocks: gone})
	}
	if held < len(chain) {
		stored := change{at: held, blocks: chain[held:]}
		if held > 0 {
			stored.parent, stored.hasParent = chain[held-1], true
		}
		c.changed(stored)
	}
}
