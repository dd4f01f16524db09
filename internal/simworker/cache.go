package simworker

import "container/list"

// cache is the block pool of one rank. It only counts: there are no contents.
// The owner locks.
//
// A block is in one of four states: free; reserved by a running request and
// not yet full; full and pinned by running requests, which share it; full and
// idle, kept for a later match until its place is needed.
//
// Invariant: reserved + len(blocks) <= capacity.
type cache struct {
	capacity int
	reserved int
	blocks   map[blockKey]*block // the full ones
	idle     list.List           // of *block, least recently used in front
	evicted  []blockKey          // since the owner last took them
}

// block is a full block.
type block struct {
	key  blockKey
	pins int
	idle *list.Element // nil while pinned
}

func newCache(capacity int) *cache {
	return &cache{capacity: capacity, blocks: make(map[blockKey]*block)}
}

// holding is what one running request has of a cache.
type holding struct {
	pinned   []*block
	reserved int
}

// used returns how many blocks running requests hold; shared ones count once.
func (c *cache) used() int {
	return c.reserved + len(c.blocks) - c.idle.Len()
}

// acquire gives a request need blocks, of which as many as possible are cached
// ones for the front of keys. It reports false, and changes nothing, while
// other requests hold too much. need must not be less than len(keys).
func (c *cache) acquire(keys []blockKey, need int) (holding, bool) {
	var matched []*block
	unused := c.idle.Len()
	for _, key := range keys {
		b, ok := c.blocks[key]
		if !ok {
			break
		}
		if b.idle != nil {
			unused--
		}
		matched = append(matched, b)
	}
	fresh := need - len(matched)
	if fresh > c.capacity-c.reserved-len(c.blocks)+unused {
		return holding{}, false
	}
	for _, b := range matched {
		c.pin(b)
	}
	c.reserved += fresh
	for c.reserved+len(c.blocks) > c.capacity {
		c.evictOldest()
	}
	return holding{pinned: matched, reserved: fresh}, true
}

func (c *cache) pin(b *block) {
	b.pins++
	if b.idle != nil {
		c.idle.Remove(b.idle)
		b.idle = nil
	}
}

func (c *cache) evictOldest() {
	front := c.idle.Front()
	key := front.Value.(*block).key
	delete(c.blocks, key)
	c.idle.Remove(front)
	c.evicted = append(c.evicted, key)
}

// takeEvicted returns the blocks that were evicted since the last call.
func (c *cache) takeEvicted() []blockKey {
	keys := c.evicted
	c.evicted = nil
	return keys
}

// fill says that a request's blocks up to len(keys) are full now. A block that
// another request has filled with the same tokens meanwhile is shared, and the
// reserved one given back. It returns the runs of blocks that are new.
func (c *cache) fill(h *holding, keys []blockKey) []span {
	var added []span
	for i := len(h.pinned); i < len(keys); i++ {
		key := keys[i]
		b, ok := c.blocks[key]
		if !ok {
			b = &block{key: key}
			c.blocks[key] = b
			if n := len(added); n > 0 && added[n-1].to == i {
				added[n-1].to++
			} else {
				added = append(added, span{i, i + 1})
			}
		}
		c.pin(b)
		h.pinned = append(h.pinned, b)
		h.reserved--
		c.reserved--
	}
	return added
}

// release gives everything back. Full blocks stay for later matches; the end
// of a sequence is the first to go, because a block is of no use without those
// before it.
func (c *cache) release(h *holding) {
	c.reserved -= h.reserved
	for i := len(h.pinned) - 1; i >= 0; i-- {
		b := h.pinned[i]
		b.pins--
		if b.pins == 0 {
			b.idle = c.idle.PushBack(b)
		}
	}
	*h = holding{}
}
