package routing

// Weights are the parameters of a target's cost, by the names that Dynamo's
// router gave them. A block is one block of a prompt's tokens. The zero Weights
// costs nothing but blocks in use: see DefaultWeights.
type Weights struct {
	OverlapScoreCredit        float64 // 0 to 1: what a block in device memory saves
	OverlapScoreCreditDecay   float64 // how fast that credit fades on targets with more prompt work than the idlest; 0: not at all
	PrefillLoadScale          float64 // what a block of prompt work costs
	HostCacheHitWeight        float64 // 0 to 1: what a block in host memory saves
	DiskCacheHitWeight        float64 // 0 to 1: what a block on disk saves
	SharedCacheMultiplier     float64 // 0 to 1: what a block in a cache that workers share saves
	DecodeActiveRequestWeight float64 // what a request that runs or waits costs, in blocks
	HoledWeight               float64 // 0 to 1: what the overlap of an owner with missing events counts
}

// DefaultWeights are those of an empty configuration file.
func DefaultWeights() Weights {
	return Weights{
		OverlapScoreCredit: 1, PrefillLoadScale: 1, HostCacheHitWeight: 0.75, DiskCacheHitWeight: 0.25,
		DecodeActiveRequestWeight: 1, HoledWeight: 0.5,
	}
}

// Overlap is what one target holds of a prompt, in blocks from its beginning.
// A block counts once, in the fastest tier that has it.
type Overlap struct {
	Device int
	Host   int
	Disk   int
	Shared int  // in a cache that workers share
	Holed  bool // events of its owner are missing: less may be there
}

// Blocks returns the overlap over all tiers.
func (o Overlap) Blocks() int { return o.Device + o.Host + o.Disk + o.Shared }

// Work is what one target has to do. Figures of a worker that are getting old
// count in part, hence the fractions.
type Work struct {
	Prefill  float64 // blocks of prompts not computed yet, without this request
	Decode   float64 // blocks in use, with this request's where its prompt is known
	Requests float64 // running and waiting, without this request
}

// Cost is what sending a request to one target costs, with all its parts. Lower
// is better.
//
//	Credit   = OverlapScoreCredit * Decay * device + HostCacheHitWeight * host
//	         + DiskCacheHitWeight * disk + SharedCacheMultiplier * shared
//	Total    = Prefill + Decode + Requests
type Cost struct {
	Decay      float64 // 0 to 1: what is left of the credit for device memory
	Credit     float64 // blocks of the prompt that need not be computed
	RawPrefill float64 // blocks of prompt work, with this request's and before the credit
	Prefill    float64 // weighted and after the credit
	Decode     float64
	Requests   float64 // weighted
	Total      float64
}

// cost returns what a prompt costs on one target. prompt is its length in
// blocks, idlest the least Work.Prefill among the candidates. It is a pure
// function.
func (w *Weights) cost(prompt int, idlest float64, o Overlap, work Work) Cost {
	c := Cost{Decay: w.decay(prompt, work.Prefill-idlest)}
	c.Credit = w.OverlapScoreCredit*c.Decay*float64(o.Device) +
		w.HostCacheHitWeight*float64(o.Host) +
		w.DiskCacheHitWeight*float64(o.Disk) +
		w.SharedCacheMultiplier*float64(o.Shared)
	if o.Holed {
		c.Credit *= w.HoledWeight
	}
	c.RawPrefill = work.Prefill + float64(prompt)
	c.Prefill = w.PrefillLoadScale * max(0, c.RawPrefill-c.Credit)
	c.Decode = work.Decode
	c.Requests = w.DecodeActiveRequestWeight * work.Requests
	c.Total = c.Prefill + c.Decode + c.Requests
	return c
}

// decay is what is left of the credit on a target with excess more blocks of
// prompt work than the idlest one: half, once the excess is a prompt's length
// divided by the setting.
func (w *Weights) decay(prompt int, excess float64) float64 {
	if prompt == 0 {
		return 1
	}
	return 1 / (1 + w.OverlapScoreCreditDecay*excess/float64(prompt))
}
