package simworker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// The pool against a list: newest at the end, what is stored or touched moves
// there, and the front leaves.
func TestHostPoolIsLeastRecentlyUsed(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for capacity := range 5 {
		p := newHostPool(capacity)
		var list []blockKey
		use := func(key blockKey) (known bool) {
			if i := slices.Index(list, key); i >= 0 {
				list, known = slices.Delete(list, i, i+1), true
			}
			list = append(list, key)
			return known
		}
		for range 500 {
			keys := make([]blockKey, rng.IntN(8))
			first := rng.IntN(8)
			for i := range keys {
				keys[i] = blockKey{byte(first + i)}
			}
			added, evicted := p.store(keys, span{0, len(keys)})
			var wantAdded, gotAdded, wantEvicted []blockKey
			for _, key := range keys[:min(len(keys), capacity)] {
				if !use(key) {
					wantAdded = append(wantAdded, key)
				}
			}
			for len(list) > capacity {
				wantEvicted, list = append(wantEvicted, list[0]), list[1:]
			}
			for _, s := range added {
				gotAdded = append(gotAdded, keys[s.from:s.to]...)
			}
			if !slices.Equal(gotAdded, wantAdded) || !slices.Equal(evicted, wantEvicted) {
				t.Fatalf("capacity %d: added %v and evicted %v, want %v and %v", capacity, gotAdded, evicted, wantAdded, wantEvicted)
			}
			if key := (blockKey{byte(rng.IntN(16))}); p.touch(key) != slices.Contains(list, key) {
				t.Fatalf("touch %v", key)
			} else if slices.Contains(list, key) {
				use(key)
			}
		}
	}
}

// The buffer against a list.
func TestReplayBufferKeepsTheLast(t *testing.T) {
	b := newReplayBuffer(3)
	var all []uint64
	for seq := range uint64(10) {
		b.add(sent{seq: seq})
		all = append(all, seq)
		all = all[max(0, len(all)-3):]
		for from := range uint64(12) {
			var got, want []uint64
			for _, s := range b.since(from) {
				got = append(got, s.seq)
			}
			for _, s := range all {
				if s >= from {
					want = append(want, s)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("after %d, since %d: %v, want %v", seq, from, got, want)
			}
		}
	}
	if b.clear(); len(b.since(0)) != 0 {
		t.Error("not empty after clear")
	}
}
