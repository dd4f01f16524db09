package routing

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"mooring/internal/fleet"
)

var began = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// promptOf is a prompt of these blocks and, perhaps, an incomplete one. Blocks are
// named by all before them, so that prompts share a beginning or nothing.
func promptOf(partial bool, sequence ...uint64) prompt {
	p := prompt{tokens: 1, sequence: sequence, blocks: len(sequence)}
	if partial {
		p.blocks++
	}
	return p
}

// onlyTarget counts a prompt on one target, as if nobody else were there.
func onlyTarget(l *load, t fleet.Target, p prompt, overlap int, now time.Time) *held {
	w := DefaultWeights()
	c := &choice{rows: []row{{target: t, overlap: Overlap{Device: overlap}}}, prompt: p, weights: &w, now: now}
	_, held := l.choose(c)
	return held
}

// workOf returns what a target would have to do with one more prompt.
func workOf(l *load, t fleet.Target, p prompt, f Figures, fresh float64, now time.Time) Work {
	w := DefaultWeights()
	c := &choice{rows: []row{{target: t, figures: f, fresh: fresh}}, prompt: p, weights: &w, now: now}
	l.preview(c)
	return c.rows[0].work
}

func wantWork(t *testing.T, what string, got, want Work) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

func TestBlocksInUseCountOnce(t *testing.T) {
	l, a := newLoad(), fleet.OnRank(1, 0)
	system := []uint64{1, 2, 3}
	wantWork(t, "idle", workOf(l, a, promptOf(true, 1, 2, 3), Figures{}, 0, began), Work{Decode: 4})

	first := onlyTarget(l, a, promptOf(true, append(system, 10)...), 0, began)
	wantWork(t, "one runs", workOf(l, a, promptOf(false, append(system, 20, 21)...), Figures{}, 0, began),
		Work{Prefill: 5, Decode: 5 + 2, Requests: 1}) // 4 blocks and the incomplete one; two new ones
	second := onlyTarget(l, a, promptOf(false, append(system, 20, 21)...), 3, began)
	wantWork(t, "two run", workOf(l, a, promptOf(false, 99), Figures{}, 0, began), Work{Prefill: 5 + 2, Decode: 7 + 1, Requests: 2})
	wantWork(t, "elsewhere", workOf(l, fleet.OnRank(1, 1), promptOf(false, 1), Figures{}, 0, began), Work{Decode: 1})

	l.done(a, first)
	wantWork(t, "the first ended", workOf(l, a, promptOf(false, append(system, 10)...), Figures{}, 0, began),
		Work{Prefill: 2, Decode: 5 + 1, Requests: 1})
	l.done(a, second)
	wantWork(t, "idle again", workOf(l, a, promptOf(false, 1), Figures{}, 0, began), Work{Decode: 1})
}

func TestPromptWorkEnds(t *testing.T) {
	l, a := newLoad(), fleet.OnRank(1, 0)
	first := onlyTarget(l, a, promptOf(false, 1, 2), 0, began)
	onlyTarget(l, a, promptOf(false, 3, 4, 5), 0, began.Add(time.Second))
	onlyTarget(l, a, promptOf(false, 6), 0, began.Add(2*time.Second))
	prefill := func(now time.Time) float64 { return workOf(l, a, promptOf(false, 9), Figures{}, 0, now).Prefill }

	if got := prefill(began.Add(2 * time.Second)); got != 6 {
		t.Errorf("all new: %v blocks to compute, want 6", got)
	}
	l.computed(a, first)
	l.computed(a, first)
	if got := prefill(began.Add(2 * time.Second)); got != 4 {
		t.Errorf("the first has begun to answer: %v, want 4", got)
	}
	if got := prefill(began.Add(time.Second + prefillTime - 1)); got != 4 {
		t.Errorf("just before the second's time is over: %v, want 4", got)
	}
	if got := prefill(began.Add(time.Second + prefillTime)); got != 1 {
		t.Errorf("after it: %v, want 1", got)
	}
	l.done(a, first) // late, of one whose work has ended
	if got := prefill(began.Add(time.Hour)); got != 0 {
		t.Errorf("long after: %v, want 0", got)
	}
}

// Everything that was counted is taken back, in whatever order.
func TestLoadReturnsToNothing(t *testing.T) {
	l := newLoad()
	r := rand.New(rand.NewPCG(3, 4))
	type running struct {
		t    fleet.Target
		held *held
	}
	var live []running
	now := began
	for range 5000 {
		now = now.Add(time.Duration(r.IntN(int(prefillTime / 20))))
		if len(live) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(live))
			if r.IntN(2) == 0 {
				l.computed(live[i].t, live[i].held)
			}
			l.done(live[i].t, live[i].held)
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			continue
		}
		sequence := make([]uint64, r.IntN(6))
		for i := range sequence {
			sequence[i] = uint64(10*i) + r.Uint64N(2)
		}
		target := fleet.OnRank(fleet.WorkerID(1+r.IntN(3)), 0)
		live = append(live, running{target, onlyTarget(l, target, promptOf(r.IntN(2) == 0, sequence...), r.IntN(len(sequence)+1), now)})
	}
	for _, x := range live {
		l.done(x.t, x.held)
	}
	for target, h := range l.mu.work {
		if h.live != 0 || h.partial != 0 || h.prefill != 0 || len(h.blocks) != 0 {
			t.Errorf("%v still holds %+v", target, h)
		}
	}
}

func TestFiguresAddWhatOthersDo(t *testing.T) {
	l, a := newLoad(), fleet.OnRank(1, 0)
	l.add(a)
	l.add(a)
	said := Figures{Running: 4, Waiting: 3, KVUse: 0.5, KVBlocks: 100, At: began}
	// Two of the seven are ours.
	wantWork(t, "fresh", workOf(l, a, promptOf(false, 1), said, 1, began), Work{Requests: 7, Decode: 50 + 1})
	wantWork(t, "half faded", workOf(l, a, promptOf(false, 1), said, 0.5, began), Work{Requests: 4.5, Decode: 25 + 1})
	wantWork(t, "gone", workOf(l, a, promptOf(false, 1), said, 0, began), Work{Requests: 2, Decode: 1})

	// What is chosen after the figures came is not in them, and comes on top.
	held := onlyTargetWith(l, a, promptOf(false, 1, 2), said)
	wantWork(t, "one more of ours", workOf(l, a, promptOf(false, 9), said, 1, began), Work{Requests: 8, Decode: 50 + 2 + 1, Prefill: 2})
	newer := said
	newer.Running, newer.At = 5, began.Add(time.Second)
	wantWork(t, "newer figures have it", workOf(l, a, promptOf(false, 9), newer, 1, began), Work{Requests: 8, Decode: 50 + 1, Prefill: 2})
	l.done(a, held)
	fewer := Figures{Running: 1, At: began.Add(2 * time.Second)}
	wantWork(t, "fewer than ours", workOf(l, a, promptOf(false, 9), fewer, 1, began), Work{Requests: 2, Decode: 1})
}

func onlyTargetWith(l *load, t fleet.Target, p prompt, f Figures) *held {
	w := DefaultWeights()
	_, held := l.choose(&choice{rows: []row{{target: t, figures: f, fresh: 1}}, prompt: p, weights: &w, now: began})
	return held
}

func TestFreshness(t *testing.T) {
	for age, want := range map[time.Duration]float64{-time.Second: 1, 0: 1, figuresLife / 4: 0.75, figuresLife: 0, time.Hour: 0} {
		if got := freshness(age); got != want {
			t.Errorf("after %v: %v, want %v", age, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	limits := Limits{ActiveRequests: 10, WaitingRequests: 4, KVUse: 0.9}
	tests := []struct {
		name  string
		work  Work
		f     Figures
		fresh float64
		want  bool
	}{
		{"idle", Work{}, Figures{}, 0, false},
		{"one below", Work{Requests: 9}, Figures{Waiting: 3, KVUse: 0.89}, 1, false},
		{"requests", Work{Requests: 10}, Figures{}, 0, true},
		{"waiting", Work{}, Figures{Waiting: 4}, 1, true},
		{"waiting, some time ago", Work{}, Figures{Waiting: 4}, 0.1, true},
		{"waiting, long ago", Work{}, Figures{Waiting: 4}, 0, false},
		{"memory", Work{}, Figures{KVUse: 0.9}, 1, true},
		{"memory, some time ago", Work{}, Figures{KVUse: 0.9}, 0.1, true},
		{"memory, long ago", Work{}, Figures{KVUse: 1}, 0, false},
	}
	for _, tt := range tests {
		if got := limits.exceeded(tt.work, tt.f, tt.fresh); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if (&Limits{}).exceeded(tt.work, tt.f, tt.fresh) {
			t.Errorf("%s: over no limits", tt.name)
		}
	}
}

func TestIdleTargetsAreForgotten(t *testing.T) {
	l := newLoad()
	busy := fleet.OnRank(1, 0)
	onlyTarget(l, busy, promptOf(false, 1), 0, began)
	for i := range 3 * maxHoldings {
		target := fleet.OnRank(fleet.WorkerID(i+2), 0)
		l.done(target, onlyTarget(l, target, promptOf(false, 1), 0, began))
	}
	if n := len(l.mu.work); n > maxHoldings || l.of(busy) != 1 {
		t.Errorf("%d targets are remembered, the busy one with %d requests", n, l.of(busy))
	}
	for i := range 3 * maxHoldings { // all of them busy
		l.add(fleet.OnRank(fleet.WorkerID(i+2), 0))
	}
	for i := range 3 * maxHoldings {
		if target := fleet.OnRank(fleet.WorkerID(i+2), 0); l.of(target) != 1 {
			t.Fatalf("%v has %d requests, want 1", target, l.of(target))
		}
	}
}

// Choices at once see each other: none is made on what was true before the others.
func TestChoicesAtOnceSpread(t *testing.T) {
	l := newLoad()
	w := DefaultWeights()
	const workers, each = 8, 25
	var wg sync.WaitGroup
	for i := range workers * each {
		wg.Go(func() {
			c := &choice{prompt: promptOf(false, uint64(1000+i)), weights: &w, seed: uint64(i) * 0x9e3779b97f4a7c15, now: began}
			for id := range workers {
				c.rows = append(c.rows, row{target: fleet.OnRank(fleet.WorkerID(id+1), 0)})
			}
			l.choose(c)
		})
	}
	wg.Wait()
	for id := range workers {
		// Costs within a hundredth are equal, so that shares differ by a few.
		if n := l.of(fleet.OnRank(fleet.WorkerID(id+1), 0)); n < each-3 || n > each+3 {
			t.Errorf("worker %d has %d requests, want about %d", id+1, n, each)
		}
	}
}
