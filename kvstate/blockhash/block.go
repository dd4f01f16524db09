package blockhash

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"
)

// smallTokens and largeTokens are how many tokens fit the buffers of Block and of
// largeBlock.
const (
	smallTokens = 128
	largeTokens = 2048
)

// Append appends to dst the local hashes of the complete blocks of tokens, and
// returns the extended slice. A blockSize of 0 or less has no blocks. It keeps
// no reference to tokens.
func Append(dst []uint64, tokens []uint32, blockSize int, seed uint64) []uint64 {
	return appendWindows(dst, tokens, blockSize, 0, seed)
}

// AppendEagle is Append for engines that run Eagle speculation: a block's hash
// covers the token after the block too, so that the windows are blockSize+1
// tokens long and blockSize apart.
func AppendEagle(dst []uint64, tokens []uint32, blockSize int, seed uint64) []uint64 {
	return appendWindows(dst, tokens, blockSize, 1, seed)
}

// appendWindows hashes windows of stride+ahead tokens, stride apart.
func appendWindows(dst []uint64, tokens []uint32, stride, ahead int, seed uint64) []uint64 {
	if stride <= 0 || ahead >= len(tokens) {
		return dst
	}
	dst = slices.Grow(dst, (len(tokens)-ahead)/stride)
	// Written so that no stride, however large, can overflow.
	for len(tokens)-ahead >= stride {
		dst = append(dst, Block(tokens[:stride+ahead], nil, seed))
		tokens = tokens[stride:]
	}
	return dst
}

// Block returns the local hash of one block. multimodal holds the hashes of the
// images and other inputs in it (see Multimodal) in any order, and is not kept
// or changed. Without multimodal inputs, blocks of up to 2,048 tokens allocate
// nothing.
func Block(tokens []uint32, multimodal []uint64, seed uint64) uint64 {
	if len(tokens) > smallTokens || len(multimodal) > 0 {
		return largeBlock(tokens, multimodal, seed)
	}
	var buf [4 * smallTokens]byte
	b := buf[:4*len(tokens)]
	putTokens(b, tokens)
	return xxh3.HashSeed(b, seed)
}

// largeBlock is Block for what does not fit Block's buffer. It is apart from
// Block because to clear its own costs more than to hash a small block. (The
// streaming form of the hash would allocate for every block.)
func largeBlock(tokens []uint32, multimodal []uint64, seed uint64) uint64 {
	var buf [4 * largeTokens]byte
	b := buf[:]
	if n := 4*len(tokens) + 8*len(multimodal); n > len(b) {
		b = make([]byte, n)
	} else {
		b = b[:n]
	}
	putTokens(b[:4*len(tokens)], tokens)
	if len(multimodal) > 0 {
		sorted, rest := slices.Clone(multimodal), b[4*len(tokens):]
		slices.Sort(sorted)
		for i, m := range sorted {
			binary.LittleEndian.PutUint64(rest[8*i:], m)
		}
	}
	return xxh3.HashSeed(b, seed)
}

// putTokens writes tokens to b, which is exactly four times as long.
func putTokens(b []byte, tokens []uint32) {
	for i, t := range tokens {
		binary.LittleEndian.PutUint32(b[4*i:4*i+4], t)
	}
}
