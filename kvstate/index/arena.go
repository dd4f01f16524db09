package index

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

// Items of an arena live in chunks of 4,096, so that an id finds its item by two
// loads, nothing ever moves, and the memory of an empty chunk goes back.
const (
	chunkBits = 12
	chunkSize = 1 << chunkBits
)

// arena hands out numbered items. Ids start at 1; 0 is nobody's. at may be called
// by anybody for an id that is alive or in limbo (see epochs); all else is for the
// holder of Index.mu.
type arena[T any] struct {
	chunks  []atomic.Pointer[chunk[T]]
	current uint32   // the chunk that is handed out from; it is never given back
	partial []uint32 // other chunks with free items
	empty   []uint32 // numbers without a chunk, below grown
	grown   uint32   // numbers from here on never had a chunk
	live    int      // items handed out
}

// chunk is 4,096 items and which of them are free. Lower ids go first, so that
// chains of blocks that are stored together lie together.
type chunk[T any] struct {
	items [chunkSize]T
	free  [chunkSize / 64]uint64
	some  uint64 // bit i: free[i] is not 0
	used  int
}

// newArena returns an arena that can hold at least capacity items. Item 0 exists
// from the start, for the owner of the arena to use.
func newArena[T any](capacity int) arena[T] {
	a := arena[T]{chunks: make([]atomic.Pointer[chunk[T]], capacity/chunkSize+2)}
	a.chunks[0].Store(newChunk[T]())
	a.chunks[0].Load().take()
	a.grown = 1
	return a
}

func newChunk[T any]() *chunk[T] {
	c := &chunk[T]{some: ^uint64(0)}
	for i := range c.free {
		c.free[i] = ^uint64(0)
	}
	return c
}

func (a *arena[T]) at(id uint32) *T {
	return &a.chunks[id>>chunkBits].Load().items[id%chunkSize]
}

// take returns the id of an item that is as its last user left it, or all zero.
// It is false if the arena is full.
func (a *arena[T]) take() (id uint32, ok bool) {
	c := a.chunks[a.current].Load()
	if c.some == 0 {
		if c, ok = a.nextChunk(); !ok {
			return 0, false
		}
	}
	a.live++
	return a.current<<chunkBits | c.take(), true
}

// nextChunk makes a chunk with free items the current one.
func (a *arena[T]) nextChunk() (*chunk[T], bool) {
	switch {
	case len(a.partial) > 0:
		a.current, a.partial = pop(a.partial)
		return a.chunks[a.current].Load(), true
	case len(a.empty) > 0:
		a.current, a.empty = pop(a.empty)
	case int(a.grown) < len(a.chunks):
		a.current = a.grown
		a.grown++
	default:
		return nil, false
	}
	c := newChunk[T]()
	a.chunks[a.current].Store(c)
	return c, true
}

// give takes an item back that nobody can reach any more.
func (a *arena[T]) give(id uint32) {
	n := id >> chunkBits
	c := a.chunks[n].Load()
	full := c.some == 0
	c.give(id % chunkSize)
	a.live--
	switch {
	case n == a.current:
	case c.used == 0:
		if i := slices.Index(a.partial, n); i >= 0 {
			a.partial = slices.Delete(a.partial, i, i+1)
		}
		a.chunks[n].Store(nil)
		a.empty = append(a.empty, n)
	case full:
		a.partial = append(a.partial, n)
	}
}

func (c *chunk[T]) take() uint32 {
	word := bits.TrailingZeros64(c.some)
	bit := bits.TrailingZeros64(c.free[word])
	c.free[word] &^= 1 << bit
	if c.free[word] == 0 {
		c.some &^= 1 << word
	}
	c.used++
	return uint32(word*64 + bit)
}

func (c *chunk[T]) give(i uint32) {
	c.free[i/64] |= 1 << (i % 64)
	c.some |= 1 << (i / 64)
	c.used--
}

func pop[T any](s []T) (T, []T) { return s[len(s)-1], s[:len(s)-1] }
