package replication

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"testing/quick"
)

func TestSumSetHasWhatWasPutIn(t *testing.T) {
	if err := quick.Check(func(sums []uint64, seed uint64) bool {
		var b []byte
		in := map[uint64]bool{}
		for i, sum := range append(sums, sums...) { // twice
			if i%2 == 0 {
				sum &= 0xffff // all in one place
			}
			b = binary.BigEndian.AppendUint64(b, sum)
			in[sum] = true
		}
		s, rng := newSumSet(b), rand.New(rand.NewPCG(seed, 1))
		for range 100 {
			if other := rng.Uint64(); s.has(other) != in[other] {
				return false
			}
		}
		for sum := range in {
			if s.has(sum) != (sum != 0) {
				return false
			}
		}
		return true
	}, nil); err != nil {
		t.Error(err)
	}
}

func TestPartsOfAreThoseNamed(t *testing.T) {
	if err := quick.Check(func(buckets, pairs []byte) bool {
		named := map[[2]byte]bool{}
		for _, b := range buckets {
			for sub := range 256 {
				named[[2]byte{b, byte(sub)}] = true
			}
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			named[[2]byte{pairs[i], pairs[i+1]}] = true
		}
		got, seen := map[[2]byte]bool{}, map[byte]bool{}
		for _, p := range partsOf(buckets, pairs) {
			if seen[p.bucket] {
				return false
			}
			seen[p.bucket] = true
			for sub := range 256 {
				if p.has(uint8(sub)) {
					got[[2]byte{p.bucket, byte(sub)}] = true
				}
			}
		}
		for k := range named {
			if !got[k] {
				return false
			}
		}
		return len(got) == len(named)
	}, nil); err != nil {
		t.Error(err)
	}
}
