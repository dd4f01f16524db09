package replication

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// sumSet is a set of sums of records: a hash table of at most half as many sums
// as places. Sums are evenly spread already, but not those that somebody made up.
type sumSet struct {
	places []uint64 // a power of two; 0: empty
	seed   maphash.Seed
}

// newSumSet returns the set of the big-endian sums in b.
func newSumSet(b []byte) (s sumSet) {
	if len(b) < 8 {
		return s
	}
	s.seed = maphash.MakeSeed()
	s.places = make([]uint64, 1<<bits.Len(uint(len(b)/4)))
	for ; len(b) >= 8; b = b[8:] {
		sum := binary.BigEndian.Uint64(b)
		i := s.find(sum)
		s.places[i] = sum
	}
	return s
}

// find returns the place of the sum, or the empty one where it would be. The
// places are never all taken.
func (s *sumSet) find(sum uint64) int {
	mask := uint64(len(s.places) - 1)
	for i := maphash.Comparable(s.seed, sum) & mask; ; i = (i + 1) & mask {
		if s.places[i] == sum || s.places[i] == 0 {
			return int(i)
		}
	}
}

// has reports whether the sum is in the set. 0 is in none.
func (s *sumSet) has(sum uint64) bool {
	return len(s.places) > 0 && sum != 0 && s.places[s.find(sum)] == sum
}

// subSet is a set of sub-buckets of one bucket.
type subSet [4]uint64

func (s *subSet) add(sub uint8)      { s[sub/64] |= 1 << (sub % 64) }
func (s *subSet) has(sub uint8) bool { return s[sub/64]&(1<<(sub%64)) != 0 }

// part is a bucket, or some sub-buckets of one.
type part struct {
	bucket uint8
	subs   *subSet // nil: all
}

func (p part) has(sub uint8) bool { return p.subs == nil || p.subs.has(sub) }

// partsOf returns the parts that a want names: whole buckets, and pairs of a
// bucket and a sub-bucket.
func partsOf(buckets, pairs []byte) (parts []part) {
	var whole [256]bool
	for _, b := range buckets {
		if !whole[b] {
			whole[b] = true
			parts = append(parts, part{bucket: b})
		}
	}
	var subs [256]*subSet
	for ; len(pairs) >= 2; pairs = pairs[2:] {
		b := pairs[0]
		if subs[b] == nil && !whole[b] {
			subs[b] = new(subSet)
			parts = append(parts, part{b, subs[b]})
		}
		if subs[b] != nil {
			subs[b].add(pairs[1])
		}
	}
	return parts
}
