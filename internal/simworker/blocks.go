package simworker

import (
	"crypto/sha256"
	"encoding/binary"
)

// blockKey names a full block by all the tokens up to its end: two blocks have
// one key only if everything before them is the same too.
type blockKey [16]byte

// rootKey is the parent of a first block. Adapter and salt are in it, so that
// the blocks of one adapter or tenant never match another's.
func rootKey(adapter, salt string) blockKey {
	h := sha256.New()
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(adapter)))
	h.Write(n[:])
	h.Write([]byte(adapter))
	h.Write([]byte(salt))
	return blockKey(h.Sum(nil)[:len(blockKey{})])
}

// childKey is the key of the block with these tokens behind parent.
func childKey(parent blockKey, tokens []token) blockKey {
	buf := make([]byte, 0, len(parent)+4*len(tokens))
	buf = append(buf, parent[:]...)
	for _, id := range tokens {
		buf = binary.LittleEndian.AppendUint32(buf, id)
	}
	sum := sha256.Sum256(buf)
	return blockKey(sum[:len(parent)])
}

// chain is the block keys of a sequence of tokens that grows at its end.
type chain struct {
	blockSize int
	root      blockKey
	keys      []blockKey // of the full blocks, in order
	tail      []token    // behind the last full block; shorter than blockSize
}

// extend appends tokens.
func (c *chain) extend(tokens ...token) {
	c.tail = append(c.tail, tokens...)
	for len(c.tail) >= c.blockSize {
		parent := c.root
		if len(c.keys) > 0 {
			parent = c.keys[len(c.keys)-1]
		}
		c.keys = append(c.keys, childKey(parent, c.tail[:c.blockSize]))
		c.tail = c.tail[c.blockSize:]
	}
}
