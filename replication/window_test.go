package replication

import (
	"math"
	"testing"
	"time"
)

func TestVeryOldNumberIsNotFresh(t *testing.T) {
	w := &window{}
	for _, n := range []uint64{1, 10_000_000, 10_000_000 - windowSize + 1} {
		if fresh, _ := w.take(n); !fresh {
			t.Errorf("number %d is not fresh", n)
		}
	}
	for _, n := range []uint64{2, 10_000_000 - windowSize, 10_000_000} {
		if fresh, _ := w.take(n); fresh {
			t.Errorf("number %d is fresh", n)
		}
	}
}

// TestHighestNumberEnds plays the last number that there is: nothing comes after
// it, and a loop up to it must end.
func TestHighestNumberEnds(t *testing.T) {
	for _, before := range []uint64{1, math.MaxUint64 - 2*windowSize, math.MaxUint64 - 1} {
		w := &window{}
		w.startAt(before)
		for _, n := range []uint64{before, math.MaxUint64} {
			if fresh, _ := w.take(n); !fresh {
				t.Errorf("from %d: number %d is not fresh", before, n)
			}
		}
		if fresh, _ := w.take(math.MaxUint64); fresh {
			t.Errorf("from %d: the highest number is fresh twice", before)
		}
	}
}

// TestHolesAreCountedOnce plays a sender's numbers out of order and doubled.
func TestHolesAreCountedOnce(t *testing.T) {
	for _, c := range []struct {
		numbers []uint64
		holes   uint64
	}{
		{[]uint64{5, 6, 7}, 0},
		{[]uint64{5, 8}, 2},
		{[]uint64{5, 8, 6, 7}, 0},
		{[]uint64{5, 8, 8, 8, 5, 5}, 2},      // doubled
		{[]uint64{5, 8, 6, 6, 6}, 1},         // late and doubled
		{[]uint64{5, 4, 3}, 0},               // sent before the first that came
		{[]uint64{5, 6, 0, 0}, 0},            // without a number
		{[]uint64{1, 1_000_000, 2}, 999_998}, // too old to tell
		{[]uint64{1, 3, 1_000_000}, 999_996 + 1},
		{[]uint64{1, math.MaxUint64}, math.MaxUint64 - 2}, // a poisoned one
		{[]uint64{math.MaxUint64}, 0},
	} {
		core := &Core{peers: peers{byID: make(map[uint64]*peer)}}
		var p *peer
		for _, n := range c.numbers {
			p = core.hear(p0, 1, n, "")
		}
		if p.Holes != c.holes {
			t.Errorf("%v: %d holes, want %d", c.numbers, p.Holes, c.holes)
		}
	}
}

// TestInventedSendersDriveNobodyOut hears of many senders who never say anything
// of use, and then of those who were there before.
func TestInventedSendersDriveNobodyOut(t *testing.T) {
	core := &Core{peers: peers{byID: make(map[uint64]*peer)}}
	for id := range uint64(10) {
		core.peers.digested(core.hear(p0, 1+id, 1, ""))
	}
	for id := range uint64(10_000) {
		core.hear(p0.Add(time.Duration(id)), 1000+id, 1, "")
	}
	if len(core.peers.byID) != maxPeers {
		t.Errorf("%d peers, want %d", len(core.peers.byID), maxPeers)
	}
	for id := range uint64(10) {
		if core.peers.byID[1+id] == nil {
			t.Errorf("peer %d is forgotten", 1+id)
		}
	}
	if core.peers.byID[1000+9999] == nil {
		t.Error("the newest sender has no place")
	}
}

var p0 = time.Unix(1_000_000_000, 0)
