package feed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mooring/internal/zmqsock"
	"mooring/kvstate"
)

// B75: 200 feeds start at once. At most 8 replays run at a time, those that are
// cut at half go on from there, a history that begins too late is a gap, live
// batches that wait are applied, and all is over within a bounded time.
func TestManyReplays(t *testing.T) {
	const feeds, batches, atOnce = 200, 50, 8
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.replays = NewReplayLimit(atOnce)
		defer r.stop()
		var payloads [batches + 1][]byte
		for n := range payloads {
			payloads[n] = block(t, n)
		}
		var running, most, starts, fromZero atomic.Int64
		for i := range feeds {
			e := r.engine(fmt.Sprint(i), uint64(i+1), 0, true, 2)
			for n := range batches {
				e.publish(payloads[n], true)
			}
			if i%10 == 0 {
				e.cut = batches / 2
			}
			if i == 1 {
				e.log = e.log[batches-10:]
			}
			e.feed.replayer = func(ctx context.Context, start uint64, emit func(uint64, []byte) error) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				starts.Add(1)
				if start == 0 {
					fromZero.Add(1)
				}
				time.Sleep(300 * time.Millisecond) // so long takes a real one
				return e.replay(ctx, start, emit)
			}
		}
		begun := time.Now()
		for i := range feeds {
			e := r.engines[fmt.Sprint(i)]
			e.connect()
			e.publish(payloads[batches], false)
		}
		for pending := true; pending; {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			pending = false
			for _, e := range r.engines {
				pending = pending || e.feed.Details().State != Following
			}
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("took %s", took)
		}
		if most.Load() != atOnce {
			t.Errorf("%d replays at once, want %d", most.Load(), atOnce)
		}
		if fromZero.Load() != feeds || starts.Load() != feeds+feeds/10 {
			t.Errorf("%d replays from zero of %d", fromZero.Load(), starts.Load())
		}
		for name, e := range r.engines {
			d := e.feed.Details()
			wantGap := name == "1"
			if d.LastSeq != batches || d.Holed != wantGap || (d.Missing == batches-10) != wantGap {
				t.Errorf("feed %s: %+v", name, d)
			}
			if n := r.index.Blocks(e.feed.owners[kvstate.WorkerDomain]); !wantGap && n != batches+1 {
				t.Errorf("feed %s has %d blocks", name, n)
			}
		}
	})
}

// B90: a worker is removed while 10,000 of its batches are queued.
func TestStopWithQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.engine("W", 1, 0, false, 2)
		e.connect()
		e.publish(block(t, 0), false)
		for n := range 10_000 {
			e.messages <- zmqsock.Message{Connection: 1, Frames: [][]byte{[]byte("kv"), binary.BigEndian.AppendUint64(nil, uint64(n+1)), block(t, n+1)}}
		}
		e.stop()
		e.feed.Forget()
		synctest.Wait()
		if n := r.index.Len(); n != 0 {
			t.Errorf("%d blocks of a removed worker", n)
		}
		if _, err := e.feed.Status(); !errors.Is(err, ErrDisconnected) {
			t.Errorf("status: %v", err)
		}
	})
}

// Stopping waits neither for a replay, nor for its turn, nor for its pause.
func TestStopDuringReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.replays = NewReplayLimit(1)
		for i := range 3 {
			e := r.engine(fmt.Sprint(i), uint64(i+1), 0, true, 2)
			e.silent = true
			e.connect()
		}
		time.Sleep(time.Second)
		begun := time.Now()
		r.stop()
		if took := time.Since(begun); took != 0 {
			t.Errorf("stopping took %s", took)
		}
		if len(r.replays) != 0 {
			t.Error("a place in the line was not given back")
		}
	})
}

// What waits beside a replay is bounded. What does not fit is asked for, though
// the replay's answer is older than it and no live batch follows.
func TestWaitingBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		e := r.engine("W", 1, 0, true, 2)
		const n = maxWaiting + 500
		e.overflow(t, n)
		d := e.feed.Details()
		if d.LastSeq != n-1 || d.Holed || d.State != Following || d.Dropped[WaitingOverflow] != 500 || d.Gaps != 0 {
			t.Errorf("%+v", d)
		}
		if got := r.index.Blocks(e.feed.owners[kvstate.WorkerDomain]); got != n {
			t.Errorf("%d blocks of %d", got, n)
		}
	})
}

// If no replay has what did not fit, or none is answered, the feed is holed, and
// the next live batch shows the gap.
func TestWaitingLost(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.stop()
			e := r.engine("W", 1, 0, true, 2)
			const n = maxWaiting + 500
			e.lose = map[uint64]bool{}
			for i := range uint64(500) {
				e.lose[maxWaiting+i] = true
			}
			e.silent = silent
			e.overflow(t, n)
			d := e.feed.Details()
			if d.LastSeq != maxWaiting-1 || !d.Holed || d.State != CatchingUp {
				t.Errorf("silent %t: %+v", silent, d)
			}
			e.publish(block(t, n), false)
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			d = e.feed.Details()
			if d.LastSeq != n || !d.Holed || d.State != Following || d.Missing < 500 || d.Restarts != 0 {
				t.Errorf("silent %t: %+v", silent, d)
			}
		})
	}
}

// overflow publishes n batches while a replay runs whose answer has none of
// them, lets it end, and gives more replays some minutes.
func (e *engine) overflow(t *testing.T, n int) {
	e.hold = make(chan struct{})
	e.connect()
	time.Sleep(time.Second)
	for i := range n {
		e.publish(block(t, i), false)
	}
	if got := e.feed.Details().Dropped[WaitingOverflow]; got != uint64(n)-maxWaiting {
		t.Errorf("%d did not fit", got)
	}
	close(e.hold)
	time.Sleep(5 * time.Minute)
	synctest.Wait()
}

// Large payloads are bounded by their bytes, but one is always taken.
func TestWaitingBytesBounded(t *testing.T) {
	s := &sequencer{canReplay: true, dropped: new([reasons]uint64)}
	s.connected()
	for i := range uint64(5) {
		s.received(i, make([]byte, maxWaitingBytes/2))
	}
	if len(s.waiting) != 2 || s.dropped[WaitingOverflow] != 3 {
		t.Errorf("%d wait, %d dropped", len(s.waiting), s.dropped[WaitingOverflow])
	}
}

// What is still queued of a connection before is not taken for the new one's.
func TestStaleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		e := r.engine("W", 1, 0, false, 2)
		e.connect()
		e.publish(block(t, 0), false)
		e.connect()
		e.messages <- zmqsock.Message{Connection: 1, Frames: [][]byte{[]byte("kv"), make([]byte, 8), block(t, 0)}}
		e.publish(block(t, 1), false)
		if d := e.feed.Details(); d.Dropped[StaleConnection] != 1 || d.Restarts != 0 || d.Holed || d.LastSeq != 1 {
			t.Errorf("%+v", d)
		}
		// A message may come before the news of its connection.
		e.connection++
		e.publish(block(t, 2), false)
		e.feed.link.notify(zmqsock.Event{Connected: true, Connection: e.connection})
		synctest.Wait()
		if d := e.feed.Details(); d.LastSeq != 2 || d.Holed || d.State != Following {
			t.Errorf("%+v", d)
		}
	})
}

// One replay brings so many batches at most, and takes so long at most.
func TestReplayBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e := r.engine("W", 1, 0, true, 2)
		e.stop()
		endless := func(_ context.Context, start uint64, emit func(uint64, []byte) error) error {
			for ; ; start++ {
				if err := emit(start, nil); err != nil {
					return err
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		taken := make(chan int)
		go func() {
			n := 0
			for {
				select {
				case <-e.feed.replies:
					n++
				case <-ctx.Done():
					taken <- n
					return
				}
			}
		}()
		e.feed.replayer = endless
		if err := e.feed.replay(ctx, action{tries: 1}); err != errEndless {
			t.Errorf("endless: %v", err)
		}
		synctest.Wait()
		cancel()
		if n := <-taken; n != maxReplayed {
			t.Errorf("%d batches", n)
		}
		e.silent = true
		e.feed.replayer = e.replay
		begun := time.Now()
		if err := e.feed.replay(t.Context(), action{tries: 1}); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 31*time.Second {
			t.Errorf("silent: %v after %s", err, time.Since(begun))
		}
	})
}
