package simworker

import (
	"crypto/sha256"
	"encoding/binary"
)

// blockKey names a full block by all the tokens up to its end: two blocks have
// one key only if everything before them is the same too.
type blockKey [sha256.Size]byte

// external is the key as KV events carry it in a number: the last 8 bytes, big
// endian, which is what vLLM takes of a SHA-256.
func (k blockKey) external() uint64 { return binary.BigEndian.Uint64(k[len(k)-8:]) }

// namespace is what keeps equal tokens apart: blocks of one adapter or tenant
// never match another's.
type namespace struct {
	adapter string // empty: the base model
	salt    string // empty: none
}

// rootKey is the parent of a first block. The seed is the worker's own, so that
// two workers give equal tokens different keys, as two vLLM processes do.
func rootKey(seed string, ns namespace) blockKey {
	h := sha256.New()
	for _, part := range []string{seed, ns.adapter, ns.salt} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return blockKey(h.Sum(nil))
}

// childKey is the key of the block with these tokens behind parent.
func childKey(parent blockKey, tokens []token) blockKey {
	buf := make([]byte, 0, len(parent)+4*len(tokens))
	buf = append(buf, parent[:]...)
	for _, id := range tokens {
		buf = binary.LittleEndian.AppendUint32(buf, id)
	}
	return sha256.Sum256(buf)
}

// chain is the block keys of a sequence of tokens that grows at its end. What
// is in it never changes, so that parts of it may be kept.
type chain struct {
	blockSize int
	ns        namespace
	root      blockKey
	keys      []blockKey // of the full blocks, in order
	tokens    []token    // all
}

// extend appends tokens.
func (c *chain) extend(tokens ...token) {
	c.tokens = append(c.tokens, tokens...)
	for (len(c.keys)+1)*c.blockSize <= len(c.tokens) {
		c.keys = append(c.keys, childKey(c.parent(len(c.keys)), c.blockTokens(span{len(c.keys), len(c.keys) + 1})))
	}
}

// parent returns the key before the i-th.
func (c *chain) parent(i int) blockKey {
	if i == 0 {
		return c.root
	}
	return c.keys[i-1]
}

// span is the full blocks from one up to, but not including, another.
type span struct{ from, to int }

// blockTokens returns the tokens of full blocks.
func (c *chain) blockTokens(s span) []token {
	return c.tokens[s.from*c.blockSize : s.to*c.blockSize : s.to*c.blockSize]
}
