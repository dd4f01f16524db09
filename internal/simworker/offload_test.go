package simworker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// The pool against a list: what is stored or loaded moves to the end, the first
// block of a sequence behind all others, and the front leaves.
func TestHostPoolIsLeastRecentlyUsed(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for capacity := range 6 {
		p := newHostPool(capacity)
		var list []blockKey
		use := func(keys []blockKey) {
			for _, key := range slices.Backward(keys) {
				if i := slices.Index(list, key); i >= 0 {
					list = append(slices.Delete(list, i, i+1), key)
				}
			}
		}
		for range 500 {
			keys := make([]blockKey, 1+rng.IntN(8))
			first := rng.IntN(8)
			for i := range keys {
				keys[i] = blockKey{byte(first + i)}
			}
			from := rng.IntN(len(keys))
			part := keys[from:min(len(keys), from+capacity)]
			added, evicted := p.store(keys, span{from, len(keys)})
			var wantAdded, gotAdded, wantEvicted []blockKey
			for _, key := range part {
				if !slices.Contains(list, key) {
					wantAdded, list = append(wantAdded, key), append(list, key)
				}
			}
			use(part)
			for len(list) > capacity {
				wantEvicted, list = append(wantEvicted, list[0]), list[1:]
			}
			use(keys[:from+len(part)])
			for _, s := range added {
				gotAdded = append(gotAdded, keys[s.from:s.to]...)
			}
			if !slices.Equal(gotAdded, wantAdded) || !slices.Equal(evicted, wantEvicted) {
				t.Fatalf("capacity %d: added %v and evicted %v, want %v and %v", capacity, gotAdded, evicted, wantAdded, wantEvicted)
			}
			n := 0
			for n < len(keys) && slices.Contains(list, keys[n]) {
				n++
			}
			if got := p.load(keys); got != n {
				t.Fatalf("%d loaded, want %d", got, n)
			}
			use(keys[:n])
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
