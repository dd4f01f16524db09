package routing

import (
	"testing"
	"time"

	"mooring/internal/fleet"
)

// A request of ours that is in figures, and has ended when these come, is not taken
// for somebody else's.
func TestWhatEndsWhileFiguresComeIsOurs(t *testing.T) {
	l, a := newLoad(), fleet.OnRank(1, 0)
	later := func(n int) time.Time { return began.Add(time.Duration(n) * time.Second) }
	said := func(n, running int) Figures {
		return Figures{Running: running, KVUse: 0.01 * float64(2*running), KVBlocks: 100, At: later(n)}
	}
	first := onlyTarget(l, a, promptOf(false, 1, 2), 0, began)
	l.asking(a) // the worker sees the first and the second
	second := onlyTarget(l, a, promptOf(false, 3, 4), 0, began)
	l.done(a, first)
	l.done(a, second)
	onlyTargetWith(l, a, promptOf(false, 5, 6), Figures{At: began}) // of before
	l.said(a, later(1))
	wantWork(t, "both are ours", workOf(l, a, promptOf(false, 9), said(1, 2), 1, began), Work{Requests: 1, Decode: 2 + 1, Prefill: 2})
	wantWork(t, "a third is not", workOf(l, a, promptOf(false, 9), said(1, 3), 1, began), Work{Requests: 1 + 1, Decode: 2 + 2 + 1, Prefill: 2})

	// No answer: the figures and what was seen of ours stay.
	l.asking(a)
	l.add(a)
	l.add(a)
	l.said(a, later(1))
	wantWork(t, "no answer", workOf(l, a, promptOf(false, 9), said(1, 3), 1, began), Work{Requests: 3 + 1, Decode: 2 + 2 + 1, Prefill: 2})

	// What ended before they were asked for is not in them.
	l.done(a, nil)
	l.done(a, nil)
	l.asking(a)
	l.said(a, later(2))
	wantWork(t, "somebody else's", workOf(l, a, promptOf(false, 9), said(2, 2), 1, began), Work{Requests: 1 + 1, Decode: 2 + 2 + 1, Prefill: 2})
}

// A request that names no rank is on each of its worker's, as far as anybody knows.
func TestWhatNamesNoRankIsOursOnEach(t *testing.T) {
	l, bare := newLoad(), fleet.WorkerOnly(1)
	ranks := []fleet.Target{fleet.OnRank(1, 0), fleet.OnRank(1, 1)}
	for _, rank := range ranks {
		l.asking(rank)
	}
	l.add(bare)
	l.done(bare, nil)
	for _, rank := range ranks {
		l.said(rank, began)
		wantWork(t, rank.String(), workOf(l, rank, promptOf(false, 9), Figures{Running: 1, At: began}, 1, began), Work{Decode: 1})
	}
	if l.mu.bare != 0 || l.of(bare) != 0 {
		t.Errorf("%d without a rank are left, %d there", l.mu.bare, l.of(bare))
	}
}
