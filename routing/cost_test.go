package routing

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Worked by hand, in blocks.
func TestCost(t *testing.T) {
	standard := DefaultWeights()
	decaying, shared, heavy := standard, standard, standard
	decaying.OverlapScoreCreditDecay = 2
	shared.SharedCacheMultiplier = 0.5
	heavy.PrefillLoadScale, heavy.DecodeActiveRequestWeight = 3, 10
	nothing := Weights{}
	tests := []struct {
		name    string
		weights Weights
		prompt  int
		idlest  float64
		overlap Overlap
		work    Work
		want    Cost
	}{
		{"an idle target without the prompt", standard, 10, 0, Overlap{}, Work{Decode: 10},
			// 1 * (10 - 0) + 10 + 0
			Cost{Decay: 1, RawPrefill: 10, Prefill: 10, Decode: 10, Total: 20}},
		{"an idle target with most of it", standard, 10, 0, Overlap{Device: 8}, Work{Decode: 10},
			// 1 * (10 - 8) + 10
			Cost{Decay: 1, Credit: 8, RawPrefill: 10, Prefill: 2, Decode: 10, Total: 12}},
		{"a busy target with most of it", standard, 10, 0, Overlap{Device: 8}, Work{Prefill: 4, Decode: 30, Requests: 3},
			// 4 + 10 - 8 = 6; 6 + 30 + 3
			Cost{Decay: 1, Credit: 8, RawPrefill: 14, Prefill: 6, Decode: 30, Requests: 3, Total: 39}},
		{"slower tiers save less", standard, 20, 0, Overlap{Device: 4, Host: 4, Disk: 4, Shared: 4}, Work{Decode: 20},
			// 4 + 0.75*4 + 0.25*4 + 0*4 = 8; 20 - 8 = 12
			Cost{Decay: 1, Credit: 8, RawPrefill: 20, Prefill: 12, Decode: 20, Total: 32}},
		{"a shared cache that counts", shared, 20, 0, Overlap{Shared: 4}, Work{Decode: 20},
			Cost{Decay: 1, Credit: 2, RawPrefill: 20, Prefill: 18, Decode: 20, Total: 38}},
		{"holes halve the credit", standard, 10, 0, Overlap{Device: 4, Host: 4, Holed: true}, Work{Decode: 10},
			// (4 + 3) / 2
			Cost{Decay: 1, Credit: 3.5, RawPrefill: 10, Prefill: 6.5, Decode: 10, Total: 16.5}},
		{"the credit is never more than the work", standard, 4, 0, Overlap{Device: 4}, Work{Decode: 4},
			Cost{Decay: 1, Credit: 4, RawPrefill: 4, Prefill: 0, Decode: 4, Total: 4}},
		{"credit fades on the busier target", decaying, 10, 5, Overlap{Device: 8, Host: 2}, Work{Prefill: 15, Decode: 10},
			// x = (15 - 5) / 10 = 1, decay = 1 / (1 + 2) ; credit = 8/3 + 1.5; prefill = 25 - 4.1666
			Cost{Decay: 1. / 3, Credit: 8./3 + 1.5, RawPrefill: 25, Prefill: 25 - 8./3 - 1.5, Decode: 10, Total: 35 - 8./3 - 1.5}},
		{"and not on the idlest", decaying, 10, 15, Overlap{Device: 8}, Work{Prefill: 15, Decode: 10},
			Cost{Decay: 1, Credit: 8, RawPrefill: 25, Prefill: 17, Decode: 10, Total: 27}},
		{"scales", heavy, 10, 0, Overlap{Device: 8}, Work{Decode: 10, Requests: 2},
			Cost{Decay: 1, Credit: 8, RawPrefill: 10, Prefill: 6, Decode: 10, Requests: 20, Total: 36}},
		{"no weights", nothing, 10, 0, Overlap{Device: 8}, Work{Prefill: 3, Decode: 12, Requests: 2},
			Cost{Decay: 1, RawPrefill: 13, Decode: 12, Total: 12}},
		{"no prompt", decaying, 0, 0, Overlap{}, Work{Prefill: 3, Decode: 2, Requests: 1},
			Cost{Decay: 1, RawPrefill: 3, Prefill: 3, Decode: 2, Requests: 1, Total: 6}},
	}
	for _, tt := range tests {
		got := tt.weights.cost(tt.prompt, tt.idlest, tt.overlap, tt.work)
		if !near(got, tt.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
}

func near(a, b Cost) bool {
	for _, d := range []float64{
		a.Decay - b.Decay, a.Credit - b.Credit, a.RawPrefill - b.RawPrefill, a.Prefill - b.Prefill, a.Decode - b.Decode,
		a.Requests - b.Requests, a.Total - b.Total,
	} {
		if math.Abs(d) > 1e-9*(1+math.Abs(b.Total)) {
			return false
		}
	}
	return true
}

// naiveCost goes through the prompt block by block: each is computed, or saved in
// part by where it is.
func naiveCost(w Weights, prompt int, idlest float64, o Overlap, work Work) float64 {
	fading := 1.0
	if prompt > 0 && w.OverlapScoreCreditDecay > 0 {
		fading = 1 / (1 + w.OverlapScoreCreditDecay*(work.Prefill-idlest)/float64(prompt))
	}
	trust := 1.0
	if o.Holed {
		trust = w.HoledWeight
	}
	toCompute := work.Prefill
	for block := range prompt {
		saved := 0.0
		switch at := block; {
		case at < o.Device:
			saved = w.OverlapScoreCredit * fading
		case at < o.Device+o.Host:
			saved = w.HostCacheHitWeight
		case at < o.Device+o.Host+o.Disk:
			saved = w.DiskCacheHitWeight
		case at < o.Device+o.Host+o.Disk+o.Shared:
			saved = w.SharedCacheMultiplier
		}
		toCompute += 1 - trust*saved
	}
	if toCompute < 0 {
		toCompute = 0
	}
	return w.PrefillLoadScale*toCompute + work.Decode + w.DecodeActiveRequestWeight*work.Requests
}

func TestCostAgreesWithANaiveOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		w := Weights{
			OverlapScoreCredit: r.Float64(), OverlapScoreCreditDecay: 5 * r.Float64(), PrefillLoadScale: 3 * r.Float64(), HostCacheHitWeight: r.Float64(),
			DiskCacheHitWeight: r.Float64(), SharedCacheMultiplier: r.Float64(), DecodeActiveRequestWeight: 9 * r.Float64(), HoledWeight: r.Float64(),
		}
		prompt := r.IntN(40)
		left := prompt
		part := func() int { n := r.IntN(left + 1); left -= n; return n }
		o := Overlap{Device: part(), Host: part(), Disk: part(), Shared: part(), Holed: r.IntN(2) == 0}
		idlest := float64(r.IntN(20))
		work := Work{Prefill: idlest + float64(r.IntN(50)), Decode: 100 * r.Float64(), Requests: float64(r.IntN(30))}
		got, want := w.cost(prompt, idlest, o, work).Total, naiveCost(w, prompt, idlest, o, work)
		if math.Abs(got-want) > 1e-9*(1+want) {
			t.Fatalf("weights %+v, prompt %d, idlest %v, overlap %+v, work %+v: %v, naive %v", w, prompt, idlest, o, work, got, want)
		}
	}
}
