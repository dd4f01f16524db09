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
				sum &= 0xffff
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

// TestSumsMadeToMeetDoNot gives sums that differ in some bits alone: whoever sends
// them must not make each look go through all of them.
func TestSumsMadeToMeetDoNot(t *testing.T) {
	for shift := 0; shift <= 47; shift++ {
		var b []byte
		for i := range uint64(1 << 13) {
			b = binary.BigEndian.AppendUint64(b, (i+1)<<shift)
		}
		s := newSumSet(b)
		longest, run := 0, 0
		for _, sum := range s.places {
			if run++; sum == 0 {
				run = 0
			}
			longest = max(longest, run)
		}
		if longest > 1<<9 {
			t.Errorf("shifted by %d: %d of %d sums are in a row", shift, longest, 1<<13)
		}
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
