package feed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"mooring/kvstate"
)

// A kv_replay that leads to another engine is found out by the live batches,
// whether it has published more than ours, a little more, or less.
func TestReplayOfAnotherEngine(t *testing.T) {
	const ours = 300
	for _, theirs := range []int{1000, ours + 20, ours, ours - 20, 0} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.stop()
			e := r.engine("W", 1, 0, true, 2)
			for n := range theirs {
				e.log = append(e.log, numbered{uint64(n), pack(t, fmt.Sprintf(`[0, [["BlockStored", [%d], null, [7, %d], 2]]]`, 100_000+n, n))})
			}
			e.connect()
			time.Sleep(time.Second)
			for n := range ours {
				e.live(uint64(n), block(t, n))
				time.Sleep(20 * time.Millisecond)
				synctest.Wait()
				if d := e.feed.Details(); d.Holed != (theirs > 0) {
					t.Fatalf("%d theirs, after live batch %d: %+v", theirs, n, d)
				}
			}
			d, want := e.feed.Details(), ours
			if theirs > 0 {
				want = 0 // ours have no beginning
			}
			if n := r.index.Blocks(e.feed.owners[kvstate.WorkerDomain]); n != want || d.State != Following || d.LastSeq != ours-1 {
				t.Errorf("%d theirs: %d blocks, want %d: %+v", theirs, n, want, d)
			}
			if (d.Dropped[ForeignReplay] > 0) != (theirs > 0) || d.Restarts > 2 {
				t.Errorf("%d theirs: %+v", theirs, d)
			}
		})
	}
}

// A replay that brings a number near 2^64 does not stop the live stream.
func TestReplayOfImpossibleNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		e := r.engine("W", 1, 0, true, 2)
		e.log = []numbered{{endOfReplay - 1, block(t, 0)}}
		e.connect()
		time.Sleep(time.Second)
		for n := range 100 {
			e.live(uint64(n), block(t, n))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		d := e.feed.Details()
		if d.LastSeq != 99 || d.State != Following || d.Dropped[ForeignReplay] == 0 || r.index.Blocks(e.feed.owners[kvstate.WorkerDomain]) != 100 {
			t.Errorf("%+v", d)
		}
		e.live(100, pack(t, `[0, [["AllBlocksCleared"]]]`))
		if d := e.feed.Details(); d.Holed || r.index.Len() != 0 {
			t.Errorf("after a clear: %d blocks, %+v", r.index.Len(), d)
		}
	})
}

// TestForeignSimulation: replays are another engine's, and all else happens that
// TestSimulation has. When all is quiet, what was applied is one engine's
// history, or the feed says that it may not be; but for a foreign history that
// ends just where the live one goes on.
func TestForeignSimulation(t *testing.T) {
	doubts, holes, unseen := 0, 0, 0
	for seed := range uint64(300) {
		w := &world{t: t, r: rand.New(rand.NewPCG(seed, 2)), mixed: true}
		theirs := 1 + w.r.IntN(150)
		for n := range theirs {
			w.foreign = append(w.foreign, payloadOf(-1, n))
		}
		w.seq = sequencer{canReplay: true, dropped: new([reasons]uint64)}
		w.do(w.seq.connected())
		for range 100 {
			w.step()
		}
		w.settle()
		for range 3 {
			n := len(w.log)
			w.log = append(w.log, payloadOf(w.process, n))
			w.do(w.seq.received(uint64(n), []byte(w.log[n])))
			w.settle()
		}
		switch {
		case w.seq.doubtful():
			doubts++
		case w.holed:
			holes++
		case len(w.log) > theirs && slices.Equal(w.applied, slices.Concat(w.foreign, w.log[theirs:])):
			unseen++
		case !slices.Equal(w.applied, w.log):
			t.Errorf("seed %d: %d foreign ones, applied %q\nof %q", seed, theirs, w.applied, w.log)
		}
	}
	if t.Logf("of 300, %d ended in doubt, %d holed", doubts, holes); unseen > 3 {
		t.Errorf("%d were not found out", unseen)
	}
}
