package routing

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"mooring/internal/fleet"
)

// costing returns one row a cost, on workers 1, 2, ...; a negative cost is full.
func costing(costs ...float64) []row {
	rows := make([]row, len(costs))
	for i, c := range costs {
		rows[i] = row{target: fleet.OnRank(fleet.WorkerID(i+1), 0), cost: Cost{Total: c}, full: c < 0, work: Work{Requests: c}}
	}
	return rows
}

// share returns how often each row wins over many keys.
func share(rows []row, known bool, temperature float64) []float64 {
	const keys = 6000
	wins := make([]float64, len(rows))
	for i := range keys {
		wins[pick(rows, hashString(fmt.Sprint("session-", i)), known, temperature)] += 1. / keys
	}
	return wins
}

func TestTheCheapestWins(t *testing.T) {
	tests := []struct {
		name  string
		costs []float64
		want  []float64 // shares
	}{
		{"one is cheaper", []float64{30, 20, 25}, []float64{0, 1, 0}},
		{"equal", []float64{20, 20, 20, 20}, []float64{.25, .25, .25, .25}},
		{"within a hundredth", []float64{100, 101, 101.001}, []float64{.5, .5, 0}},
		{"free ones", []float64{0, 0, 1e-9}, []float64{.5, .5, 0}},
		{"the cheapest is full", []float64{-1, 20, 21}, []float64{0, 1, 0}},
	}
	for _, tt := range tests {
		for i, got := range share(costing(tt.costs...), true, 0) {
			if math.Abs(got-tt.want[i]) > 0.02 {
				t.Errorf("%s: row %d wins %.3f of keys, want %.2f", tt.name, i, got, tt.want[i])
			}
		}
	}
}

// What all targets have to do anyway is no reason to ignore what they hold.
func TestStandingWorkDoesNotDrownTheDifference(t *testing.T) {
	rows := costing(10_000, 10_040, 10_000.5)
	for i, standing := range []float64{9_900, 9_900, 9_950} {
		rows[i].standing = standing
	}
	// The cheapest costs 100 above what even the idlest has to do: one more is a tie.
	for i, got := range share(rows, true, 0) {
		if want := []float64{.5, 0, .5}[i]; math.Abs(got-want) > 0.02 {
			t.Errorf("row %d wins %.3f of keys, want %.2f", i, got, want)
		}
	}
}

func TestTheIdlestWinsWithoutAPrompt(t *testing.T) {
	// Counts, unlike costs, are exact: one in a hundred and one matters.
	for i, got := range share(costing(101, 100, 100, -1), false, 5) {
		if want := []float64{0, .5, .5, 0}[i]; math.Abs(got-want) > 0.02 {
			t.Errorf("row %d wins %.3f of keys, want %.2f", i, got, want)
		}
	}
}

func TestAllFull(t *testing.T) {
	for _, temperature := range []float64{0, 1} {
		for _, known := range []bool{false, true} {
			if got := pick(costing(-1, -2), 7, known, temperature); got != -1 {
				t.Errorf("known %v, temperature %v: %d wins, want nobody", known, temperature, got)
			}
		}
	}
}

// The shares at a temperature are those of a softmax over normalised costs.
func TestTemperature(t *testing.T) {
	costs := []float64{10, 12, 15, 20}
	for _, temperature := range []float64{0.1, 0.5, 1, 10} {
		sum, want := 0.0, make([]float64, len(costs))
		for i, c := range costs {
			want[i] = math.Exp(-(c - 10) / ((20 - 10) * temperature))
			sum += want[i]
		}
		for i, got := range share(costing(costs...), true, temperature) {
			if math.Abs(got-want[i]/sum) > 0.015 {
				t.Errorf("temperature %v: cost %v wins %.3f of keys, want %.3f", temperature, costs[i], got, want[i]/sum)
			}
		}
	}
	for i, got := range share(costing(8, 8), true, 0.001) {
		if math.Abs(got-0.5) > 0.02 {
			t.Errorf("equal costs: row %d wins %.3f of keys, want half", i, got)
		}
	}
	if got := share(costing(10, 10.5, 500), true, 1e-6); got[1] != 0 || got[2] != 0 {
		t.Errorf("hardly any temperature: shares %v, want all for the cheapest", got)
	}
}

// The order of rows says nothing, and of equals one that leaves moves only its own
// keys.
func TestPicksDependOnNothingElse(t *testing.T) {
	rows := costing(10, 10.05, 10.02, 30)
	turned := slices.Clone(rows)
	slices.Reverse(turned)
	for i := range 4000 {
		seed, temperature := hashString(fmt.Sprint(i)), float64(i%2)
		a, b := pick(rows, seed, true, temperature), pick(turned, seed, true, temperature)
		if rows[a].target != turned[b].target {
			t.Fatalf("key %d: %v, in another order %v", i, rows[a].target, turned[b].target)
		}
	}
	equal := costing(10, 10, 10, 10)
	for i := range 2000 {
		seed := hashString(fmt.Sprint(i))
		before, after := pick(equal, seed, true, 0.7), pick(equal[:3], seed, true, 0.7)
		if before != 3 && before != after {
			t.Fatalf("key %d moved from row %d to %d when row 3 left", i, before, after)
		}
		if cold := pick(equal, seed, true, 0); cold != before {
			t.Fatalf("key %d: row %d at a temperature, %d without; equal costs are a tie", i, before, cold)
		}
	}
}
