package tokenizer

import "testing"

// What an answer was read into has room to grow: that is not kept.
func TestCachedTokensTakeNoMoreThanTheyAre(t *testing.T) {
	c := newCache(10_000)
	c.add(cacheKey{1}, append(make([]uint32, 0, 256), 7, 8, 9))
	if kept, ok := c.find(cacheKey{1}); !ok || len(kept) != 3 || cap(kept) > 8 {
		t.Errorf("%v, %v with room for %d; want the three tokens with little more", kept, ok, cap(kept))
	}
}
