package blockhash

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"
)

// Sequence appends to dst the sequence hash of each of blocks, which are the
// local hashes of a prompt from its start, and returns the extended slice. The
// first equals its block's hash; each further one is the hash of the one before
// it and its block's.
func Sequence(dst, blocks []uint64) []uint64 {
	dst = slices.Grow(dst, len(blocks))
	var parent uint64
	for i, block := range blocks {
		if i == 0 {
			parent = block
		} else {
			parent = Child(parent, block)
		}
		dst = append(dst, parent)
	}
	return dst
}

// Child returns the sequence hash of the block that follows the sequence parent.
func Child(parent, block uint64) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], parent)
	binary.LittleEndian.PutUint64(b[8:], block)
	return xxh3.HashSeed(b[:], baseSeed)
}
