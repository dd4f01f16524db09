package blockhash

import "github.com/zeebo/xxh3"

// baseSeed is the seed of blocks with neither adapter nor salt, and of sequence
// hashes.
const baseSeed = 1337

// saltSeed keeps a salt from looking like an adapter of the same name.
const saltSeed = 1

// Seed returns the seed for the blocks of a request: 1337, plus the hash of the
// adapter's name, plus the hash of the cache salt, wrapping. An empty string is
// the same as none. An adapter and a salt of the same name give different seeds.
func Seed(adapter, salt string) uint64 {
	seed := uint64(baseSeed)
	if adapter != "" {
		seed += xxh3.HashStringSeed(adapter, 0)
	}
	if salt != "" {
		seed += xxh3.HashStringSeed(salt, saltSeed)
	}
	return seed
}
