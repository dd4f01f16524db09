package e2e

import (
	"fmt"
	"testing"
	"time"
)

// kvAt has a worker publish its events on ports that another process does not get
// meanwhile, so that a restarted one finds them free.
func kvAt(t *testing.T, replay bool) []string {
	flags := []string{"--kv-events", "tcp://" + freeAddress(t)}
	if replay {
		flags = append(flags, "--kv-replay", "tcp://"+freeAddress(t))
	}
	return flags
}

// TestKVRestartedEngineForgets kills a worker and starts another at its addresses:
// what the first one held counts no more, what the new one stores does.
func TestKVRestartedEngineForgets(t *testing.T) {
	t.Parallel()
	withReplay, without := kvAt(t, true), kvAt(t, false)
	s := newKVStack(t, stackConfig{models: []string{"sim", "sim"}, flagsOfEach: [][]string{withReplay, without}})
	s.seed(s.workers[0].address, "Astronomy")
	s.seed(s.workers[1].address, "Botany")
	s.inStep(s.workers...)
	if n := s.wouldGo(20, "Astronomy", s.workers[0]); n != 20 {
		t.Errorf("%d of 20 would go to the holder before its restart", n)
	}

	before := s.ownerOf(s.workers[0], 0)
	s.workers[0].kill()
	eventually(t, 2*time.Second, "the dead worker is not projected", func() bool { return s.ownerOf(s.workers[0], 0).Resolution != "ready" })
	s.restartWorker(0, withReplay...)
	// The replay has nothing of what was there before: that tells.
	eventually(t, 10*time.Second, "the old blocks are gone", func() bool {
		k, o := s.known(s.workers[0]), s.ownerOf(s.workers[0], 0)
		return k.KV.State == "ready" && k.Blocks == 0 && o.Barrier != before.Barrier && !o.Holed
	})
	if after := s.ownerOf(s.workers[0], 0); after.Owner != before.Owner {
		t.Errorf("the owner was %+v and is %+v, want the same one behind another barrier", before, after)
	}
	if c := s.explain("late", "Astronomy").at(t, s.workers[0]); c.Device != 0 {
		t.Errorf("%d blocks of the dead engine still count", c.Device)
	}
	s.waitState(s.workers[0].address, "active")
	s.seed(s.workers[0].address, "Chess")
	s.inStep(s.workers[0])
	if n := s.wouldGo(20, "Chess", s.workers[0]); n != 20 {
		t.Errorf("%d of 20 would go to the holder after its restart", n)
	}

	// Without a replay the first batch of the new engine tells.
	s.restartWorker(1, without...)
	s.waitState(s.workers[1].address, "active")
	eventually(t, 10*time.Second, "the feed is connected again", func() bool { return s.known(s.workers[1]).KV.State == "ready" })
	if o := s.ownerOf(s.workers[1], 0); !o.Holed {
		t.Errorf("nobody can tell whether the engine is the same one: %+v, want it holed", o)
	}
	s.seed(s.workers[1].address, "Dance")
	s.inStep(s.workers[1])
	if c := s.explain("later", "Botany").at(t, s.workers[1]); c.Device != 0 {
		t.Errorf("%d blocks of the dead engine still count", c.Device)
	}
	if o := s.ownerOf(s.workers[1], 0); o.Holed {
		t.Errorf("%+v, want no holes", o)
	}
}

// batches is how many batches of KV events had an outcome.
func (w *simWorker) batches(outcome string) int {
	w.t.Helper()
	return int(metricAt(w.t, "http://"+w.address+"/metrics", "simworker_kv_batches_total", "outcome", outcome))
}

// TestKVLostBatches loses every third batch of each of six workers, whose replays
// differ.
func TestKVLostBatches(t *testing.T) {
	t.Parallel()
	kinds := []struct {
		name     string
		flags    []string
		complete bool // the index has all blocks in the end
		holed    bool // it stays in doubt, for longer than this test
	}{
		{"replayed", []string{"--kv-replay", "tcp://127.0.0.1:0"}, true, false},
		{"replayed with topics", []string{"--kv-replay", "tcp://127.0.0.1:0", "--kv-replay-frames", "4", "--kv-topic", "kv@sim"}, true, false},
		{"replayed late", []string{"--kv-replay", "tcp://127.0.0.1:0", "--kv-replay-delay", "500ms"}, true, false},
		{"replayed without an end", []string{"--kv-replay", "tcp://127.0.0.1:0", "--kv-replay-fault", "no-end"}, true, true},
		{"replayed for ever", []string{"--kv-replay", "tcp://127.0.0.1:0", "--kv-replay-fault", "endless"}, true, true},
		{"not replayed", nil, false, true},
	}
	cfg := stackConfig{}
	for _, k := range kinds {
		cfg.models = append(cfg.models, "sim")
		cfg.flagsOfEach = append(cfg.flagsOfEach, append([]string{"--kv-events", "tcp://127.0.0.1:0", "--kv-drop", "3"}, k.flags...))
	}
	s := newKVStack(t, cfg)
	for _, w := range s.workers {
		for i := range 7 {
			w.tell("/v1/chat/completions", string(chatBody(fmt.Sprint("Topic ", i), "What is it?")))
		}
	}
	for i, k := range kinds {
		w := s.workers[i]
		t.Run(k.name, func(t *testing.T) {
			state, more := "", 0
			defer func() { t.Log(state) }()
			eventually(t, 10*time.Second, "the index is as it will be", func() bool {
				known, own, o := s.known(w), w.full("device"), s.ownerOf(w, 0)
				lost, all := w.batches("withheld"), w.batches("withheld")+w.batches("published")
				state = fmt.Sprintf("%d of %d batches lost; %d blocks known, %d there; %s, holed %v", lost, all, known.Blocks, own, o.Resolution, o.Holed)
				if all%3 == 0 { // the last one is lost, which only the next one tells
					more++
					w.tell("/v1/completions", fmt.Sprintf(`{"model":"sim","max_tokens":1,"prompt":"%d is a prompt of some blocks, enough for some events."}`, more))
					return false
				}
				return lost >= 2 && (known.Blocks == own) == k.complete && o.Holed == k.holed && o.Resolution == "ready" && known.Blocks > 0
			})
		})
	}
	// A holed owner counts, but less.
	e := s.explain("any", "Topic 1")
	if c := e.at(t, s.workers[5]); !c.Holed || c.Credit >= float64(c.Device) || c.Device == 0 {
		t.Errorf("the holed worker counts %+v", c)
	}
	if c := e.at(t, s.workers[0]); c.Holed || c.Credit != float64(c.Device) || c.Device == 0 {
		t.Errorf("the repaired worker counts %+v", c)
	}
}
