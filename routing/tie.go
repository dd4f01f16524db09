package routing

import (
	"cmp"

	"mooring/internal/fleet"
)

// compareTies orders two targets that are otherwise equal for the key whose hash
// is seed: rendezvous hashing, the higher score first. Without randomness every
// replica orders them alike, and different keys order them differently.
func compareTies(seed uint64, a, b fleet.Target) int {
	return cmp.Or(cmp.Compare(tieScore(seed, b), tieScore(seed, a)), a.Compare(b))
}

func tieScore(seed uint64, t fleet.Target) uint64 {
	rank := uint64(0)
	if t.Ranked {
		rank = uint64(t.Rank) + 1
	}
	return mix(mix(seed^uint64(t.Worker)) + rank)
}

// hashString is FNV-1a, 64 bits: the same on every replica and every machine.
func hashString(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): it spreads every
// input bit over all output bits, which FNV alone does not.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
