package blockhash_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"mooring/kvstate/blockhash"
)

// TestVectors holds the numbers that other systems compute for the same tokens.
func TestVectors(t *testing.T) {
	upTo := func(n uint32) (tokens []uint32) {
		for i := range n {
			tokens = append(tokens, i+1)
		}
		return tokens
	}
	plain := blockhash.Append(nil, upTo(8), 4, blockhash.Seed("", ""))
	for _, v := range []struct {
		name      string
		got, want []uint64
	}{
		{"blocks", plain, []uint64{14643705804678351452, 16777012769546811212}},
		{"sequence", blockhash.Sequence(nil, plain), []uint64{14643705804678351452, 4945711292740353085}},
		{"adapter seed", []uint64{blockhash.Seed("adapter-a", "")}, []uint64{8842669519798868182}},
		{"adapter", blockhash.Append(nil, upTo(4), 4, blockhash.Seed("adapter-a", "")), []uint64{11381080598872079209}},
		{"salt seed", []uint64{blockhash.Seed("", "tenant-a")}, []uint64{1948188790972764086}},
		{"salt", blockhash.Append(nil, upTo(4), 4, blockhash.Seed("", "tenant-a")), []uint64{5738685477468498325}},
		{"eagle", blockhash.AppendEagle(nil, upTo(9), 4, 1337), []uint64{1914873892905420881, 1929047464662796003}},
		{"multimodal", []uint64{blockhash.Block(upTo(4), []uint64{42}, 1337)}, []uint64{14000361058806882387}},
	} {
		if !slices.Equal(v.got, v.want) {
			t.Errorf("%s: got %d, want %d", v.name, v.got, v.want)
		}
	}
}

// TestOnlyCompleteBlocks counts blocks for prompts around a block's end.
func TestOnlyCompleteBlocks(t *testing.T) {
	const huge = int(^uint(0) >> 1)
	for _, c := range []struct{ tokens, size, blocks, eagle int }{
		{0, 1, 0, 0}, {0, 4, 0, 0}, {3, 4, 0, 0}, {4, 4, 1, 0}, {5, 4, 1, 1}, {8, 4, 2, 1}, {9, 4, 2, 2},
		{3, 1, 3, 2}, {9, 0, 0, 0}, {9, -1, 0, 0}, {9, huge, 0, 0}, {1000, 300, 3, 3},
	} {
		tokens := make([]uint32, c.tokens)
		if got := len(blockhash.Append(nil, tokens, c.size, 0)); got != c.blocks {
			t.Errorf("Append(%d tokens, size %d) gave %d blocks, want %d", c.tokens, c.size, got, c.blocks)
		}
		if got := len(blockhash.AppendEagle(nil, tokens, c.size, 0)); got != c.eagle {
			t.Errorf("AppendEagle(%d tokens, size %d) gave %d blocks, want %d", c.tokens, c.size, got, c.eagle)
		}
	}
}

// TestSeedsKeepApart: an adapter, a salt of the same name and the base model
// never share a block (case B83).
func TestSeedsKeepApart(t *testing.T) {
	seen := map[uint64]string{}
	for _, c := range [][2]string{{"", ""}, {"a7", ""}, {"", "a7"}, {"a7", "a7"}, {"a7", "b"}, {"b", "a7"}} {
		seed := blockhash.Seed(c[0], c[1])
		if other, ok := seen[seed]; ok {
			t.Errorf("%q has the seed of %s", c, other)
		}
		seen[seed] = c[0] + "+" + c[1]
	}
}

// TestMultimodal checks which identifiers are content hashes.
func TestMultimodal(t *testing.T) {
	digest := "00000000000000Ff" + strings.Repeat("a", 48)
	for _, c := range []struct {
		identifier string
		want       uint64
		ok         bool
	}{
		{"", 0, false},
		{digest, 255, true},
		{digest[1:], xxh3.HashString(digest[1:]), true},
		{digest + "0", xxh3.HashString(digest + "0"), true},
		{"+" + digest[1:], xxh3.HashString("+" + digest[1:]), true},
		{strings.Repeat("_", 64), xxh3.HashString(strings.Repeat("_", 64)), true},
		{"cat.png", xxh3.HashString("cat.png"), true},
	} {
		got, ok := blockhash.Multimodal(c.identifier)
		if got != c.want || ok != c.ok {
			t.Errorf("Multimodal(%q) = %d, %t, want %d, %t", c.identifier, got, ok, c.want, c.ok)
		}
	}
}

// naive hashes a window the way the rule is written.
func naive(tokens []uint32, multimodal []uint64, seed uint64) uint64 {
	var b []byte
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, t)
	}
	sorted := slices.Sorted(slices.Values(multimodal))
	for _, m := range sorted {
		b = binary.LittleEndian.AppendUint64(b, m)
	}
	return xxh3.HashSeed(b, seed)
}

// FuzzBlock compares with the naive form, for blocks of every length on either
// side of what fits the stack.
func FuzzBlock(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 2, 0, 0, 0}, uint64(1337), uint64(0), uint64(0))
	f.Add(make([]byte, 4*128), uint64(1), uint64(9), uint64(3))
	f.Add(make([]byte, 4*129), uint64(1), uint64(0), uint64(0))
	f.Add(make([]byte, 4*2049), uint64(1), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, raw []byte, seed, m1, m2 uint64) {
		var tokens []uint32
		for ; len(raw) >= 4; raw = raw[4:] {
			tokens = append(tokens, binary.LittleEndian.Uint32(raw))
		}
		var multimodal []uint64
		for _, m := range []uint64{m1, m2} {
			if m != 0 {
				multimodal = append(multimodal, m)
			}
		}
		if got, want := blockhash.Block(tokens, multimodal, seed), naive(tokens, multimodal, seed); got != want {
			t.Errorf("Block(%d tokens, %d) = %d, want %d", len(tokens), multimodal, got, want)
		}
		if len(multimodal) == 2 && multimodal[0] != m1 {
			t.Error("Block changed its argument")
		}
	})
}

// TestAppendDoesNotAllocate holds for blocks on either side of the stack's.
func TestAppendDoesNotAllocate(t *testing.T) {
	tokens, dst := make([]uint32, 8192), make([]uint64, 0, 1024)
	for _, size := range []int{16, 64, 1024} {
		if n := testing.AllocsPerRun(10, func() {
			dst = blockhash.Append(dst[:0], tokens, size, 1337)
			dst = blockhash.Sequence(dst[:0:cap(dst)], dst)
		}); n != 0 {
			t.Errorf("block size %d: %v allocations", size, n)
		}
	}
}
