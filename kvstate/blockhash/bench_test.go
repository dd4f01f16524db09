package blockhash_test

import (
	"fmt"
	"testing"

	"mooring/kvstate/blockhash"
)

// BenchmarkAppend hashes an 8,192 token prompt.
func BenchmarkAppend(b *testing.B) {
	tokens := make([]uint32, 8192)
	for i := range tokens {
		tokens[i] = uint32(i * 2654435761)
	}
	for _, size := range []int{16, 64} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(4 * int64(len(tokens)))
			dst := make([]uint64, 0, len(tokens)/size)
			for b.Loop() {
				dst = blockhash.Append(dst[:0], tokens, size, 1337)
			}
		})
	}
}

func BenchmarkSequence(b *testing.B) {
	blocks, dst := make([]uint64, 512), make([]uint64, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		dst = blockhash.Sequence(dst[:0], blocks)
	}
}
