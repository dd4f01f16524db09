package simworker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Withheld batches are missing live, but not in the replay.
func TestWithheldBatches(t *testing.T) {
	s := servePublished(t, Config{Events: KVEvents{DropEvery: 3}}, 0)
	for range 9 {
		s.post(t, "/reset_prefix_cache", "")
	}
	all := s.replayAll(t, 0, 3)
	for last := uint64(0); last < uint64(len(all))-2; {
		last = binary.BigEndian.Uint64(get(t, s.live, "live message")[1])
		if last%3 == 2 {
			t.Errorf("batch %d came", last)
		}
	}
}

// A restart begins the numbers anew and forgets the old batches; the host pool
// stays, and serves the same prompt again.
func TestEngineRestart(t *testing.T) {
	s := servePublished(t, Config{BlockSize: 4, HostBlocks: 100}, 0)
	const body = `{"prompt":"one two three four five six seven eight nine ten","max_tokens":1}`
	s.post(t, "/v1/completions", body)
	s.post(t, "/debug/engine/restart", "")
	answer := s.post(t, "/v1/completions", body)
	if !strings.Contains(answer, `"cached_tokens":16`) {
		t.Errorf("nothing was loaded from the host pool: %s", answer)
	}
	back := s.replayAll(t, 0, 3)
	if len(back) != 1 {
		t.Fatalf("%d batches since the restart, want that of the loaded blocks", len(back))
	}
	e := naiveBatch(t, back[0][2]).events
	if len(e) != 1 || e[0].kind != "BlockStored" || e[0].medium != "GPU" || len(e[0].hashes) != 4 {
		t.Errorf("%+v", e)
	}
	for seq := uint64(1); seq != 0; {
		seq = binary.BigEndian.Uint64(get(t, s.live, "live message")[1])
	}
}

// A batch that finds the queue full is lost, and its number with it.
func TestFullQueueLosesNumbers(t *testing.T) {
	j := newJournal(2)
	for range 4 {
		j.cleared(false)
		j.commit()
	}
	j.commit() // nothing happened: no batch
	var got []uint64
	for len(j.batches) > 0 {
		got = append(got, (<-j.batches).seq)
	}
	j.cleared(false)
	j.commit()
	got = append(got, (<-j.batches).seq)
	if !slices.Equal(got, []uint64{0, 1, 4}) || j.dropped.Load() != 2 {
		t.Errorf("numbers %v, %d lost", got, j.dropped.Load())
	}
}

// Requests hold blocks: the cache is not reset, and the client is told.
func TestResetWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, Config{FirstToken: time.Minute, Events: KVEvents{Endpoint: "tcp://127.0.0.1:0"}})
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() {
			done <- aborted(func() { askCtx(ctx, w.Handler(), "POST", "/v1/completions", `{"prompt":"x"}`) })
		}()
		synctest.Wait()
		if rec := ask(t, w.Handler(), "POST", "/reset_prefix_cache", ""); rec.Code != http.StatusConflict {
			t.Errorf("busy: %d %s", rec.Code, rec.Body)
		}
		leave()
		<-done
		if rec := ask(t, w.Handler(), "POST", "/reset_prefix_cache?reset_external=x", ""); rec.Code != http.StatusBadRequest {
			t.Errorf("no boolean: %d", rec.Code)
		}
		if rec := ask(t, w.Handler(), "POST", "/reset_prefix_cache", ""); rec.Code != http.StatusOK || len(w.engine.ranks[0].journal.batches) != 1 {
			t.Errorf("idle: %d, %d batches", rec.Code, len(w.engine.ranks[0].journal.batches))
		}
	})
}

// What each fault makes of an answer, and how long it takes.
func TestReplayFaults(t *testing.T) {
	for _, c := range []struct {
		cfg  KVEvents
		want string
	}{
		{KVEvents{}, "2 3 end after 0s"},
		{KVEvents{ReplayDelay: time.Hour}, "after 1m0s"},
		{KVEvents{ReplayDelay: time.Second}, "2 3 end after 1s"},
		{KVEvents{ReplayFault: ReplaySilent}, "after 1m0s"},
		{KVEvents{ReplayFault: ReplayNoEnd}, "2 3 after 0s"},
		{KVEvents{ReplayFault: ReplayEndless}, "2 3 2 3 2 3 2 3 2 3 enough after 5ms"},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg, err := c.cfg.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			s := &kvStream{cfg: cfg, buffer: newReplayBuffer(3), counts: new(kvCounters), logger: newWorker(t, Config{}).cfg.Logger}
			for seq := range uint64(4) {
				s.buffer.add(sent{seq, []byte{byte(seq)}})
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begin, got := time.Now(), ""
			n := 0
			err = s.replay(ctx, [][]byte{nil, sequence64(2)}, func(frames ...[]byte) error {
				if n++; n > 10 {
					got += "enough "
					return io.EOF
				}
				if len(frames[2]) == 0 {
					got += "end "
				} else {
					got += fmt.Sprint(frames[2][0], " ")
				}
				return nil
			})
			if err != nil && !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			if got += fmt.Sprint("after ", time.Since(begin)); got != c.want {
				t.Errorf("%v %v: %s, want %s", c.cfg.ReplayFault, c.cfg.ReplayDelay, got, c.want)
			}
		})
	}
	s := &kvStream{}
	for _, request := range [][][]byte{{}, {nil}, {nil, []byte("short")}, {[]byte("x"), sequence64(0)}, {nil, sequence64(0), nil}} {
		if err := s.replay(t.Context(), request, nil); !errors.Is(err, errReplay) {
			t.Errorf("request %q: %v", request, err)
		}
	}
}

// Ports that are taken, and configurations that mean nothing, are errors.
func TestEventEndpoints(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorker(t, Config{Events: KVEvents{Endpoint: "tcp://127.0.0.1:0", Replay: "tcp://" + taken.Addr().String()}})
	if err := w.Serve(t.Context(), ln); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("taken port: %v", err)
	}
	for want, kv := range map[string]KVEvents{
		"nothing to replay": {Replay: "tcp://127.0.0.1:1"}, "kv buffer": {Buffer: -1}, "frames 5": {ReplayFrames: 5},
		"must be tcp://": {Endpoint: "ipc:///tmp/x"}, "a number": {Endpoint: "tcp://127.0.0.1:http"},
	} {
		if _, err := New(Config{Events: kv}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", kv, err, want)
		}
	}
}
