package routing

import (
	"math"

	"mooring/internal/fleet"
)

// row is one candidate of a choice.
type row struct {
	target  fleet.Target
	overlap Overlap
	figures Figures
	fresh   float64 // 0 to 1: what figures count; 0 if there are none
	work    Work
	others  float64 // blocks in use by requests of others, as the figures tell
	full    bool    // over its limits: not chosen

	// Zero where the prompt is not known.
	standing float64 // what the target's work costs without this request
	cost     Cost
}

// pick returns the index of the row that wins for the key whose hash is seed, or
// -1 if all are full. It is a pure function: replicas with equal rows agree.
//
// Where the prompt is known the cheapest wins, or with a temperature above 0 a
// cheap one more often than a dear one; where it is not, the one with the fewest
// requests. Ties break by a hash of (key, target), which spreads keys evenly.
func pick(rows []row, seed uint64, known bool, temperature float64) int {
	switch {
	case !known:
		return pickIdlest(rows, seed)
	case temperature > 0:
		return pickWarm(rows, seed, temperature)
	default:
		return pickCheapest(rows, seed)
	}
}

func pickIdlest(rows []row, seed uint64) int {
	best, score := -1, uint64(0)
	for i := range rows {
		if rows[i].full || best >= 0 && rows[i].work.Requests > rows[best].work.Requests {
			continue
		}
		mine := tieScore(seed, rows[i].target)
		if best < 0 || rows[i].work.Requests < rows[best].work.Requests || winsTie(mine, rows[i].target, score, rows[best].target) {
			best, score = i, mine
		}
	}
	return best
}

// tieMargin is within which costs count as equal: they are estimates, and without
// it every difference of a block would send all keys to one target.
const tieMargin = 0.01

// tieLimit returns the highest cost that is as good as the least: by a hundredth
// of what that is above the work that even the idlest has without this request.
// What all have to do anyway must not drown what makes the difference.
func tieLimit(rows []row) float64 {
	least, standing := math.Inf(1), math.Inf(1)
	for i := range rows {
		if !rows[i].full {
			least, standing = min(least, rows[i].cost.Total), min(standing, rows[i].standing)
		}
	}
	return least + tieMargin*max(0, least-standing)
}

func pickCheapest(rows []row, seed uint64) int {
	limit := tieLimit(rows)
	best, score := -1, uint64(0)
	for i := range rows {
		if rows[i].full || rows[i].cost.Total > limit {
			continue
		}
		if mine := tieScore(seed, rows[i].target); best < 0 || winsTie(mine, rows[i].target, score, rows[best].target) {
			best, score = i, mine
		}
	}
	return best
}

// pickWarm picks a row with a probability proportional to
//
//	exp(-(cost - least) / ((most - least) * temperature))
//
// over all keys. Each target draws from an exponential distribution whose rate
// is its weight, with the hash of (key, target) as source: the least draw wins.
// So a target that comes or goes moves only the keys that it gets or had.
func pickWarm(rows []row, seed uint64, temperature float64) int {
	least, most := costRange(rows)
	best, bestDraw, bestScore := -1, math.Inf(1), uint64(0)
	for i := range rows {
		if rows[i].full {
			continue
		}
		exponent := 0.0
		if most > least {
			exponent = (rows[i].cost.Total - least) / ((most - least) * temperature)
		}
		// The logarithm of the draw: exp(exponent) itself overflows at low temperatures.
		score := tieScore(seed, rows[i].target)
		draw := math.Log(-math.Log(fraction(score))) + exponent
		if best < 0 || draw < bestDraw || draw == bestDraw && winsTie(score, rows[i].target, bestScore, rows[best].target) {
			best, bestDraw, bestScore = i, draw, score
		}
	}
	return best
}

// fraction maps a hash to a number above 0 and below 1, evenly.
func fraction(hash uint64) float64 { return (float64(hash>>12) + 0.5) / (1 << 52) }

// costRange returns the least and the greatest cost among those that are not full.
func costRange(rows []row) (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for i := range rows {
		if !rows[i].full {
			least, most = min(least, rows[i].cost.Total), max(most, rows[i].cost.Total)
		}
	}
	return least, most
}
