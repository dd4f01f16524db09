package routing

import (
	"math/rand/v2"
	"testing"
)

// naiveProven goes by what the prompts still have to compute, block by block.
func naiveProven(h *holding, p *prompt, there int) (done int) {
	for _, e := range h.queue {
		left, had := 0, len(e.sequence)+e.partial-e.prefill
		for i := range len(e.sequence) + e.partial {
			held := i < there && i < len(e.sequence) && i < len(p.sequence) && e.sequence[i] == p.sequence[i]
			if i >= had && !held {
				left++
			}
		}
		done += e.prefill - left
	}
	return done
}

func TestProvenAgreesWithANaiveOne(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	some := func() prompt { // leaves what all share at some block, in one of two ways
		sequence := make([]uint64, r.IntN(9))
		parts, way := r.IntN(9), r.IntN(2)
		for i := range sequence {
			if sequence[i] = uint64(100 * i); i >= parts {
				sequence[i] += uint64(1 + 2*parts + way)
			}
		}
		return promptOf(r.IntN(2) == 0, sequence...)
	}
	for range 20_000 {
		var h holding
		for range 1 + r.IntN(4) {
			p := some()
			e := h.take(&p, Overlap{Device: r.IntN(p.blocks + 2)}, began)
			if r.IntN(4) == 0 {
				h.computed(e)
			}
		}
		p, there := some(), r.IntN(10)
		if got, want := h.proven(&p, there), naiveProven(&h, &p, there); got != want {
			t.Fatalf("of %v with %d held: %d blocks are done, naively %d", p.sequence, there, got, want)
		}
	}
}

// Each candidate of each choice asks this under the one lock.
func BenchmarkProven(b *testing.B) {
	var h holding
	for i := range 100 {
		p := promptOf(false, make([]uint64, benchBlocks)...)
		for j := range p.sequence {
			p.sequence[j] = uint64(1000*i + j)
		}
		h.take(&p, Overlap{}, began)
	}
	p := promptOf(false, make([]uint64, benchBlocks)...)
	for b.Loop() {
		h.proven(&p, benchBlocks)
	}
}
