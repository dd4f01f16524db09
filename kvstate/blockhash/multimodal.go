package blockhash

import (
	"strconv"

	"github.com/zeebo/xxh3"
)

// Multimodal returns the hash of a multimodal input from its identifier: the
// first 16 digits as a number if the identifier is exactly 64 hex digits (an
// engine's own content hash), the identifier's XXH3-64 otherwise. It is false
// for the empty identifier, which means that there is no input.
func Multimodal(identifier string) (uint64, bool) {
	if identifier == "" {
		return 0, false
	}
	if isContentHash(identifier) {
		if n, err := strconv.ParseUint(identifier[:16], 16, 64); err == nil {
			return n, true
		}
	}
	return xxh3.HashString(identifier), true
}

func isContentHash(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return false
		}
	}
	return true
}
