package feed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A world is one address behind which engines come and go, and a sequencer that
// follows them. Everything that can happen to the streams happens to them:
// batches are lost, live ones come before or after replayed ones, connections
// drop, replays are cut, lose some, or begin late, and the engine restarts.
type world struct {
	t   *testing.T
	r   *rand.Rand
	seq sequencer

	process int      // of the engine
	log     []string // all that it published
	kept    int      // its replay socket has the log from here on
	heard   int      // up to here live batches of this connection came
	marked  int      // up to here they were dropped with a mark, and no replay lost its end since

	foreign []string // what its replay socket has instead, if not nil: another engine's
	mixed   bool     // what is applied may be of two engines

	applied  []string // by the sequencer, since it noticed the last restart
	of       string   // the process that the first of them is of
	holed    bool
	restarts int
	asked    uint64 // the replay that runs
	from     uint64
	asking   bool
}

func payloadOf(process, n int) string { return fmt.Sprintf("%d:%d", process, n) }

func (w *world) do(actions []action) {
	for _, a := range actions {
		switch a.kind {
		case apply:
			w.apply(string(a.payload))
		case hole:
			if a.until <= a.seq {
				w.t.Fatalf("hole [%d,%d)", a.seq, a.until)
			}
			w.holed = true
		case restart:
			w.applied, w.holed = nil, false
			w.restarts++
		case replay:
			if a.seq > uint64(len(w.applied))+1000 {
				w.t.Fatalf("replay from %d", a.seq)
			}
			w.asked, w.from, w.asking = a.attempt, a.seq, true
		}
	}
}

// apply: without a hole, what is applied is what one engine published, from its
// first batch on, each once and in order.
func (w *world) apply(payload string) {
	w.t.Helper()
	n := len(w.applied)
	if n == 0 {
		w.of, _, _ = strings.Cut(payload, ":")
	}
	if !w.mixed && !w.holed && payload != fmt.Sprint(w.of, ":", n) {
		w.t.Fatalf("applied %s after %q", payload, w.applied)
	}
	w.applied = append(w.applied, payload)
}

func (w *world) publish() {
	n := len(w.log)
	w.log = append(w.log, payloadOf(w.process, n))
	switch w.r.IntN(8) {
	case 0: // the subscriber misses it
	case 1:
		w.marked = n + 1
		w.do(w.seq.missed())
	default:
		w.heard = n + 1
		w.receive(n)
	}
}

// receive brings a live batch, for which there may be no room any more.
func (w *world) receive(n int) {
	before := w.seq.waitingBytes
	full := w.seq.repairing && len(w.seq.waiting) > 0 && w.r.IntN(4) == 0
	if full {
		w.seq.waitingBytes = maxWaitingBytes
	}
	w.do(w.seq.received(uint64(n), []byte(w.log[n])))
	if full && w.seq.waitingBytes == maxWaitingBytes {
		w.seq.waitingBytes = before
	}
}

// history is what the replay socket has, from kept on.
func (w *world) history() (log []string, kept int) {
	if w.foreign != nil {
		return w.foreign, 0
	}
	return w.log, w.kept
}

// answer is a replay, as good as chance will have it, with live batches between.
func (w *world) answer() {
	w.asking = false
	attempt := w.asked
	_, kept := w.history()
	for n := max(int(w.from), kept); ; n++ {
		log, _ := w.history() // grows
		if n >= len(log) {
			break
		}
		switch w.r.IntN(20) {
		case 0:
			w.do(w.seq.replayEnded(attempt, false))
			return
		case 1: // lost on the way; at the end, nobody can know
			if n == len(log)-1 {
				w.marked = 0
			}
			continue
		case 2:
			w.publish()
		}
		w.do(w.seq.replayed(attempt, uint64(n), []byte(log[n])))
		if w.asked != attempt {
			return
		}
	}
	w.do(w.seq.replayEnded(attempt, true))
}

func (w *world) step() {
	switch w.r.IntN(30) {
	case 0: // another process
		w.do(w.seq.lost())
		w.process++
		w.log, w.kept, w.heard, w.marked = nil, 0, 0, 0
		for range w.r.IntN(4) {
			w.log = append(w.log, payloadOf(w.process, len(w.log)))
		}
		w.do(w.seq.connected())
	case 1:
		w.do(w.seq.lost())
		w.heard, w.marked = 0, 0
		for range w.r.IntN(4) {
			w.log = append(w.log, payloadOf(w.process, len(w.log)))
		}
		w.do(w.seq.connected())
	case 13:
		w.reconnectLate()
	case 2:
		w.kept = max(w.kept, len(w.log)-5)
	case 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:
		if w.asking {
			w.answer()
		}
	default:
		w.publish()
	}
}

// reconnectLate is a connection that is noticed late: a replay brings batches
// that come live on it, too.
func (w *world) reconnectLate() {
	first := len(w.log)
	for range 1 + w.r.IntN(4) {
		w.log = append(w.log, payloadOf(w.process, len(w.log)))
	}
	if w.asking {
		w.replayAll()
	}
	restarts := w.restarts
	w.do(w.seq.lost())
	w.do(w.seq.connected())
	w.heard, w.marked = 0, 0
	for n := first; n < len(w.log); n++ {
		w.heard = n + 1
		w.receive(n)
	}
	if w.restarts != restarts && w.foreign == nil {
		w.t.Fatalf("restart by live batches from %d on, applied %q", first, w.applied)
	}
}

// replayAll is a good answer to the last replay asked for.
func (w *world) replayAll() {
	w.asking = false
	attempt := w.asked
	log, kept := w.history()
	for n := max(int(w.from), kept); n < len(log) && w.asked == attempt; n++ {
		w.do(w.seq.replayed(attempt, uint64(n), []byte(log[n])))
	}
	if w.asked == attempt {
		w.do(w.seq.replayEnded(attempt, true))
	}
}

// settle lets the last replays be answered well, with one more batch in
// between, by which a gap at the end shows.
func (w *world) settle() {
	for range 4 * maxAttempts {
		if !w.asking {
			break
		}
		w.replayAll()
	}
	if w.asking || w.seq.repairing {
		w.t.Fatal("replays never end")
	}
}

// TestSimulation: whatever happens, what is applied without a hole is a prefix
// of one engine's history; and when all is quiet, it is all of the history of
// the engine that is there, unless a hole says otherwise.
func TestSimulation(t *testing.T) {
	holes := 0
	for seed := range uint64(700) {
		w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1))}
		w.seq = sequencer{canReplay: true, dropped: new([reasons]uint64)}
		w.do(w.seq.connected())
		for range 100 {
			w.step()
		}
		w.settle()
		if heard := max(w.heard, w.marked); !w.seq.doubtful() && !w.holed && len(w.applied) < heard {
			t.Fatalf("seed %d: heard of %d, applied %q, and no doubt", seed, heard, w.applied)
		}
		n := len(w.log)
		w.log = append(w.log, payloadOf(w.process, n))
		w.do(w.seq.received(uint64(n), []byte(w.log[n])))
		w.settle()
		if w.seq.doubtful() {
			t.Fatalf("seed %d: doubtful in the end", seed)
		}
		if w.holed {
			holes++
			if last := w.applied[len(w.applied)-1]; last != w.log[n] {
				t.Fatalf("seed %d: holed, and the last applied is %s of %s", seed, last, w.log[n])
			}
		} else if !slices.Equal(w.applied, w.log) {
			t.Fatalf("seed %d: applied %q\nof %q", seed, w.applied, w.log)
		}
	}
	t.Logf("%d of 700 ended holed", holes)
}
