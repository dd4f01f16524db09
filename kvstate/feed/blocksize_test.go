package feed

import (
	"strings"
	"testing"
	"testing/synctest"

	"mooring/kvstate/blockhash"
)

// says publishes a batch, and returns what an operator sees of the engine then.
func (e *engine) says(batch string) string {
	e.publish(pack(e.rig.t, batch), false)
	e.sleep()
	return e.state()
}

// leaves is a worker that is taken away.
func (e *engine) leaves() {
	e.stop()
	e.feed.Forget()
	e.stop = func() {}
}

const (
	ofTwo  = `[0, [["BlockStored", [1,2], null, [1,2,3,4], 2]]]`
	ofFour = `[0, [["BlockStored", [1,2], null, [1,2,3,4,5,6,7,8], 4]]]`
)

// An engine that restarts with blocks of another size, and the only one of its
// partition: the new size is learnt (B86).
func TestEngineRestartsWithAnotherBlockSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		e := r.engine("W1", 1, 0, false, 0)
		e.connect()
		e.says(ofTwo)
		e.restart()
		if got := e.says(ofFour); strings.Contains(got, "blocks of") || r.index.BlockSize() != 4 {
			t.Errorf("size %d: %s", r.index.BlockSize(), got)
		}
		if got := r.match([]uint32{1, 2, 3, 4, 5, 6, 7, 8}, blockhash.Seed("", "")); got != "1:0: device 2\n" {
			t.Errorf("found: %s", got)
		}
	})
}

// Engines are exchanged for ones with blocks of another size, one after the other:
// who is there keeps the size as long as it holds anything, others are in error.
func TestRollingChangeOfTheBlockSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		old, young := r.engine("W1", 1, 0, false, 0), r.engine("W2", 2, 0, false, 0)
		old.connect()
		young.connect()
		old.says(ofTwo)
		got := young.says(ofFour)
		if want := "(engine has blocks of 4 tokens, the partition has 2) wrong_block_size=1"; !strings.Contains(got, want) {
			t.Errorf("%s", got)
		}
		if got := r.match([]uint32{1, 2, 3, 4}, blockhash.Seed("", "")); got != "1:0: device 2\n" {
			t.Errorf("found: %s", got)
		}
		old.leaves()
		if got := young.says(ofFour); strings.Contains(got, "blocks of") || r.index.Len() != 2 {
			t.Errorf("%s", got)
		}
		old = r.engine("W1", 1, 0, false, 0) // not changed, as it turns out
		old.connect()
		if got, want := old.says(ofTwo), "(engine has blocks of 2 tokens, the partition has 4)"; !strings.Contains(got, want) || r.index.Len() != 2 {
			t.Errorf("%s", got)
		}
	})
}

// What was refused before its size was learnt is there afterwards if it can be
// replayed, and else the feed is holed: later blocks follow it.
func TestRefusedBlocksAreFilledIn(t *testing.T) {
	for _, replay := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.stop()
			old, young := r.engine("W1", 1, 0, false, 0), r.engine("W2", 2, 0, replay, 0)
			old.connect()
			old.says(ofTwo)
			young.connect()
			young.sleep()
			young.says(ofFour)
			old.leaves()
			young.says(`[0, [["BlockStored", [3], 2, [9,10,11,12], 4]]]`)
			found := r.match([]uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, blockhash.Seed("", ""))
			switch d := young.feed.Details(); {
			case replay && (found != "2:0: device 3\n" || d.Holed || d.Restarts != 1):
				t.Errorf("found: %sholed %t, %d restarts", found, d.Holed, d.Restarts)
			case !replay && (found != "nobody\n" || !d.Holed):
				t.Errorf("without a replay: found: %sholed %t", found, d.Holed)
			}
			if young.says(`[0, [["BlockStored", [3], 2, [9,10,11,12], 4], ["BlockStored", [9], null, [1,2], 2]]]`); young.feed.Details().Restarts > 1 {
				t.Error("it starts over for blocks of a size that is still refused")
			}
		})
	}
}

// A configured size is not for engines to change, and goes with who configured it.
func TestConfiguredBlockSizeStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		set, learns := r.engine("W1", 1, 0, false, 2), r.engine("W2", 2, 0, false, 0)
		set.connect()
		learns.connect()
		if got := learns.says(ofFour); !strings.Contains(got, "engine has blocks of 4 tokens, the partition has 2") {
			t.Errorf("%s", got)
		}
		if got := set.says(ofFour); !strings.Contains(got, "engine has blocks of 4 tokens, configured are 2, the partition has 2") {
			t.Errorf("%s", got)
		}
		anew := r.engine("W3", 3, 0, false, 4) // as when the file changes
		if got := anew.state(); !strings.Contains(got, "configured block size 4, the partition has 2") {
			t.Errorf("%s", got)
		}
		anew.connect()
		set.leaves()
		if got := anew.says(ofFour); strings.Contains(got, "blocks of") || r.index.Len() != 2 {
			t.Errorf("%s", got)
		}
		anew.says(`[0, [["AllBlocksCleared"]]]`)
		if learns.says(ofTwo); r.index.BlockSize() != 4 {
			t.Errorf("a learnt size %d in place of the configured", r.index.BlockSize())
		}
	})
}
