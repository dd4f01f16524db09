package feed

import (
	"encoding/binary"
	"math"

	"github.com/tinylib/msgp/msgp"
)

// readHash reads a block hash: an integer of either sign, or bytes, of which
// the last 8 count, big endian (what vLLM itself does to get an integer).
func readHash(b []byte) (h uint64, rest []byte, err error) {
	if msgp.NextType(b) != msgp.BinType {
		return readUint(b)
	}
	s, rest, err := msgp.ReadBytesZC(b)
	if err != nil {
		return 0, b, err
	}
	if len(s) == 0 || len(s) > maxHashString {
		return 0, b, errType
	}
	if len(s) >= 8 {
		return binary.BigEndian.Uint64(s[len(s)-8:]), rest, nil
	}
	for _, c := range s {
		h = h<<8 | uint64(c)
	}
	return h, rest, nil
}

func (d *decoder) readHashes(b []byte) (hashes []uint64, rest []byte, err error) {
	n, b, err := arrayHeader(b)
	if err != nil {
		return nil, b, err
	}
	if n > maxHashes {
		return nil, b, errTooLarge
	}
	start := len(d.hashes)
	for range n {
		var h uint64
		if h, b, err = readHash(b); err != nil {
			return nil, b, err
		}
		d.hashes = append(d.hashes, h)
	}
	return d.hashes[start:len(d.hashes):len(d.hashes)], b, nil
}

// readTokens reads token ids, or pairs of neighbouring ones, which overlap.
func (d *decoder) readTokens(b []byte) (tokens []uint32, pairs bool, rest []byte, err error) {
	n, b, err := arrayHeader(b)
	if err != nil {
		return nil, false, b, err
	}
	if n > maxTokens {
		return nil, false, b, errTooLarge
	}
	start := len(d.tokens)
	if n > 0 && msgp.NextType(b) == msgp.ArrayType {
		pairs = true
		b, err = d.readPairs(n, b)
	} else {
		b, err = d.readIDs(n, b)
	}
	return d.tokens[start:len(d.tokens):len(d.tokens)], pairs, b, err
}

func (d *decoder) readIDs(n int, b []byte) (rest []byte, err error) {
	for range n {
		var v uint64
		if v, b, err = readUint(b); err != nil {
			return b, err
		}
		if v > math.MaxUint32 {
			return b, errType
		}
		d.tokens = append(d.tokens, uint32(v))
	}
	return b, nil
}

func (d *decoder) readPairs(n int, b []byte) (rest []byte, err error) {
	for i := range n {
		size, after, err := arrayHeader(b)
		if err != nil {
			return b, err
		}
		if size != 2 {
			return b, errType
		}
		if b, err = d.readIDs(2, after); err != nil {
			return b, err
		}
		if i == 0 {
			continue
		}
		last := len(d.tokens) - 1
		if d.tokens[last-1] != d.tokens[last-2] {
			return b, errType // the pairs do not overlap
		}
		d.tokens[last-1] = d.tokens[last]
		d.tokens = d.tokens[:last]
	}
	return b, nil
}
