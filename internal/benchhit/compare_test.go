package benchhit

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
)

var (
	whole         = flag.Bool("whole", false, "print the whole comparison, as make bench-hit does")
	seed          = flag.Uint64("seed", 1, "seed of the trace")
	conversations = flag.Int("conversations", 2000, "how many conversations the whole comparison has")
	rate          = flag.Float64("rate", 0.35, "new conversations per second and worker")
)

// contender is a policy under its name. Each run gets a new one.
type contender struct {
	name string
	make func() (policy, error)
}

func contenders() []contender {
	plain := func(p policy) func() (policy, error) { return func() (policy, error) { return p, nil } }
	return []contender{
		{"round robin", plain(&roundRobin{})},
		{"least requests", plain(&leastRequests{})},
		{"sticky only", plain(&sticky{bound: make(map[*conversation]*worker)})},
		{"mooring", newMooring},
		{"all-knowing, greedy", plain(&allKnowing{})},
	}
}

// run sends a trace through a new policy of c.
func (c contender) run(t *testing.T, trace []*conversation, workers int, lose bool) (r *result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, err := c.make()
		if err != nil {
			t.Fatal(err)
		}
		r = simulate(trace, workers, lose, p)
	})
	return r
}

func TestMooringKeepsSessionsAndOpensThemWhereTheirPrefixIs(t *testing.T) {
	fleets, n := []int{4}, 120
	if *whole {
		fleets, n = []int{1, 4, 16}, *conversations
		fmt.Printf("%d conversations, seed %d, %.2f new ones per second and worker\n\n", n, *seed, *rate)
		fmt.Println("                                     cached           first token     first turns")
		fmt.Println("workers  lost  router                  all  1st turns  p50 ms  p99 ms  p50 ms  p99 ms  moved  turns")
	}
	for _, workers := range fleets {
		trace := newTrace(traceConfig{seed: *seed, conversations: n, perSecond: *rate * float64(workers)})
		best := bound(trace)
		for _, lose := range []bool{false, true} {
			results := make(map[string]*result)
			for _, c := range contenders() {
				r := c.run(t, trace, workers, lose)
				results[c.name] = r
				if *whole {
					show(workers, lose, c.name, r)
				}
			}
			if *whole {
				show(workers, lose, "bound", best)
			}
			if workers > 1 {
				check(t, fmt.Sprintf("%d workers, lost %v", workers, lose), results, lose)
			}
			for name, r := range results {
				if !lose && (r.all.hitShare() > best.all.hitShare() || r.first.hitShare() > best.first.hitShare()) {
					t.Errorf("%d workers: %s has more in cache than there can be", workers, name)
				}
			}
		}
	}
}

// check holds what Mooring is for against the other ways.
func check(t *testing.T, of string, results map[string]*result, lose bool) {
	t.Helper()
	mooring, sticky, spread, greedy := results["mooring"], results["sticky only"], results["round robin"], results["all-knowing, greedy"]
	if !lose && mooring.moved > 0 {
		t.Errorf("%s: mooring moved %d turns", of, mooring.moved)
	}
	if got, want := len(mooring.all.firstTokens), len(spread.all.firstTokens); got < want*9/10 {
		t.Errorf("%s: mooring answered %d turns, round robin %d", of, got, want)
	}
	if m, s := mooring.first.hitShare(), sticky.first.hitShare(); m < s+0.03 {
		t.Errorf("%s: mooring has %.1f %% of the first prompts in cache, sticky only %.1f %%: want at least 3 points more", of, 100*m, 100*s)
	}
	if m, s := mooring.all.hitShare(), spread.all.hitShare(); m < s+0.2 {
		t.Errorf("%s: mooring has %.1f %% of all prompts in cache, round robin %.1f %%: want at least 20 points more", of, 100*m, 100*s)
	}
	if m, g := mooring.all.hitShare(), greedy.all.hitShare(); m < g-0.03 {
		t.Errorf("%s: mooring has %.1f %% of all prompts in cache, who sees every cache and queue %.1f %%: want 3 points less at most", of, 100*m, 100*g)
	}
}

func show(workers int, lose bool, name string, r *result) {
	lost := 0
	if lose {
		lost = 1
	}
	fmt.Printf("%7d  %4d  %-20s %4.1f %%     %4.1f %%  %6d  %6d  %6d  %6d  %5d  %5d\n", workers, lost, name,
		100*r.all.hitShare(), 100*r.first.hitShare(), r.all.quantile(0.5).Milliseconds(), r.all.quantile(0.99).Milliseconds(),
		r.first.quantile(0.5).Milliseconds(), r.first.quantile(0.99).Milliseconds(), r.moved, len(r.all.firstTokens))
}
