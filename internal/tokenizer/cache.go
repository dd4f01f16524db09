package tokenizer

import (
	"container/list"
	"crypto/sha256"
	"io"
	"slices"
	"sync"
)

// cacheKey is a hash of what was asked. A prompt itself is not kept.
type cacheKey [sha256.Size]byte

func keyOf(scope string, body []byte) cacheKey {
	h := sha256.New()
	io.WriteString(h, scope)
	h.Write([]byte{0})
	h.Write(body)
	var k cacheKey
	h.Sum(k[:0])
	return k
}

// cache keeps the answers used last, bounded by their tokens in sum. Safe for
// concurrent use.
type cache struct {
	limit int // tokens; an entry counts at least entryTokens
	mu    struct {
		sync.Mutex
		entries map[cacheKey]*list.Element // of *cached
		order   *list.List                 // the one used last in front
		tokens  int
	}
}

// entryTokens is what an entry takes beside its tokens, in tokens.
const entryTokens = 64

type cached struct {
	key    cacheKey
	tokens []uint32
}

func (c *cached) size() int { return len(c.tokens) + entryTokens }

func newCache(limit int) *cache {
	c := &cache{limit: limit}
	c.mu.entries, c.mu.order = make(map[cacheKey]*list.Element), list.New()
	return c
}

// find returns the tokens under a key. They must not be changed.
func (c *cache) find(key cacheKey) ([]uint32, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.mu.entries[key]
	if !ok {
		return nil, false
	}
	c.mu.order.MoveToFront(e)
	return e.Value.(*cached).tokens, true
}

// add keeps a copy of tokens, without the room to grow that they were read into.
func (c *cache) add(key cacheKey, tokens []uint32) {
	entry := &cached{key: key, tokens: tokens}
	if entry.size() > c.limit {
		return
	}
	entry.tokens = slices.Clone(tokens)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.mu.entries[key]; there {
		return // two asked at once
	}
	c.mu.entries[key] = c.mu.order.PushFront(entry)
	for c.mu.tokens += entry.size(); c.mu.tokens > c.limit; {
		last := c.mu.order.Back()
		old := c.mu.order.Remove(last).(*cached)
		delete(c.mu.entries, old.key)
		c.mu.tokens -= old.size()
	}
}
