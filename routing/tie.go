package routing

import "mooring/internal/fleet"

// tieScore is by what targets that are otherwise equal are told apart for the key
// whose hash is seed: rendezvous hashing, the highest score wins. Without randomness
// every replica orders them alike, and different keys order them differently.
func tieScore(seed uint64, t fleet.Target) uint64 {
	rank := uint64(0)
	if t.Ranked {
		rank = uint64(t.Rank) + 1
	}
	return mix(mix(seed^uint64(t.Worker)) + rank)
}

// winsTie reports whether target a with its tieScore goes before b.
func winsTie(scoreA uint64, a fleet.Target, scoreB uint64, b fleet.Target) bool {
	return scoreA > scoreB || scoreA == scoreB && a.Compare(b) < 0
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
