package replication_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// live is how much memory is in use.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// session returns the n-th of the longest names.
func session(n int) string {
	name := fmt.Sprintf("%d-", n)
	return name + strings.Repeat("x", 256-len(name))
}

// bindMany binds n sessions from the first on, at a rate or, if it is 0, as fast as
// it goes, and returns how long 99 of 100 bindings took at most, and all together.
func bindMany(t *testing.T, at *node, first, n, perSecond int) (p99, all time.Duration) {
	t.Helper()
	took, began := make([]time.Duration, n), time.Now()
	for i := range n {
		if perSecond > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))))
		}
		before := time.Now()
		at.bind(t, session(first+i), 1)
		took[i] = time.Since(before)
	}
	all = time.Since(began)
	slices.Sort(took)
	return took[n*99/100], all
}

func (n *node) hasAll(from, sessions int) func() bool {
	return func() bool {
		for ; from < sessions && n.has(session(from), 1); from++ {
		}
		return from == sessions
	}
}

// TestUnreachablePeerCostsAQueue is B64: while a peer neither reads nor answers,
// 30,000 bindings are made, with MOORING_LONG 300,000. They take no longer than
// those of a replica without peers, and no more memory than the mesh's queue for
// that peer; when it is back it gets them all.
func TestUnreachablePeerCostsAQueue(t *testing.T) {
	const most, looks = 300_000, 10
	n := 30_000
	if os.Getenv("MOORING_LONG") != "" {
		n = most
	}
	grow := func(at *node) (grown [looks]int64, slowest time.Duration) {
		before := live()
		for i := range grown {
			p99, _ := bindMany(t, at, i*n/looks, n/looks, 0)
			eventually(t, "all are sent", func() bool { return at.core.Waiting() == 0 })
			grown[i], slowest = live()-before, max(slowest, p99)
		}
		return grown, slowest
	}
	lone := startBigNode(t, 3, most, free)
	alone, usual := grow(lone)
	lone.stop()

	a := startBigNode(t, 1, most, free)
	toA := newRelay(t, a.endpoint(t))
	peer := startBigNode(t, 2, most, free, toA.endpoint())
	toPeer := newRelay(t, peer.endpoint(t))
	if err := a.mesh.SetPeers([]string{toPeer.endpoint()}); err != nil {
		t.Fatal(err)
	}
	joined(t, a)
	joined(t, peer)
	resume := stopAll(t, toA, toPeer)
	grown, p99 := grow(a)
	extra := int64(0)
	for i := range grown {
		extra = max(extra, grown[i]-alone[i])
	}
	t.Logf("%d bindings: %d KiB without peers, at most %d KiB more with one that does not read; p99 %v and %v", n, alone[looks-1]>>10, extra>>10, usual, p99)
	if extra > 24<<20 { // the queue is 16 MiB
		t.Errorf("%d bytes wait for a peer that does not read", extra)
	}
	if p99 > 10*usual+time.Millisecond {
		t.Errorf("99 of 100 bindings took up to %v; %v without peers", p99, usual)
	}
	resume()
	began := time.Now()
	within(t, time.Minute, "the peer has them all", peer.hasAll(0, n)) // 20,000 a second at most
	t.Logf("repaired %v after the peer went on", time.Since(began).Round(time.Millisecond))
}

// TestStoppedOneOfThree has 5,000 bindings a second flow for 2 s, with MOORING_LONG
// 10 s, while one of three replicas is stopped: the others lose nothing, and the
// third has all soon after it goes on.
func TestStoppedOneOfThree(t *testing.T) {
	const rate, perBinding = 5000, 1500
	n := 2 * rate
	if os.Getenv("MOORING_LONG") != "" {
		n = 10 * rate
	}
	a, b := startNode(t, 1, free), startNode(t, 2, free)
	toA, toB := newRelay(t, a.endpoint(t)), newRelay(t, b.endpoint(t))
	c := startNode(t, 3, free, toA.endpoint(), toB.endpoint())
	toC := newRelay(t, c.endpoint(t))
	for n, peer := range map[*node]*node{a: b, b: a} {
		if err := n.mesh.SetPeers([]string{peer.endpoint(t), toC.endpoint()}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []*node{a, b, c} {
		joined(t, n)
	}
	perSecond := func(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }
	_, all := bindMany(t, a, n, n/4, rate)
	usual := perSecond(n/4, all) // less than asked for if the machine is busy
	resume := stopAll(t, toA, toB, toC)
	before := live()
	p99, all := bindMany(t, a, 0, n, rate)
	ended := time.Now()
	eventually(t, "the other one has them all", b.hasAll(0, n))
	late, grown := time.Since(ended), live()-before
	t.Logf("%.0f bindings/s, p99 %v, the last of %d at the other one %v later; memory of all three +%d KiB", perSecond(n, all), p99, n, late, grown>>10)
	if got := perSecond(n, all); got < 0.9*rate && got < 0.7*usual {
		t.Errorf("%.0f bindings/s, before %.0f, want %d", got, usual, rate)
	}
	if grown > int64(2*n*perBinding)+32<<20 { // two queues
		t.Errorf("memory has grown by %d bytes", grown)
	}
	for _, p := range b.runner.Status().Peers {
		if p.SenderID == 1 && p.Holes > 0 {
			t.Errorf("%d messages between the two others were lost", p.Holes)
		}
	}
	resume()
	began := time.Now()
	eventually(t, "the third one has them all", c.hasAll(0, n))
	t.Logf("the third one has all %v after it went on", time.Since(began).Round(time.Millisecond))
}
