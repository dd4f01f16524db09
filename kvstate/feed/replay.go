package feed

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"mooring/internal/zmqsock"
)

const (
	// maxReplayed bounds the batches of one replay. Engines keep 10,000 unless
	// told otherwise.
	maxReplayed = 1 << 17
	// maxMisshapen bounds the messages of one replay that are none.
	maxMisshapen = 16
	// The pause before another try of one repair doubles from one to the other.
	shortestPause, longestPause = 100 * time.Millisecond, 5 * time.Second
)

var (
	errEndless   = errors.New("replay of too many batches")
	errMisshapen = errors.New("replay of misshapen messages")
	errStopped   = errors.New("replay stopped")
)

// ReplayLimit bounds the replays that run at once; it is a semaphore.
type ReplayLimit chan struct{}

// NewReplayLimit returns a limit of n replays, at least one.
func NewReplayLimit(n int) ReplayLimit { return make(ReplayLimit, max(n, 1)) }

// acquire waits for a place in the line; whoever came first is first.
func (l ReplayLimit) acquire(ctx context.Context) error {
	if l == nil {
		return ctx.Err()
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l ReplayLimit) release() {
	if l != nil {
		<-l
	}
}

// A replayer asks an engine for all batches from start on and hands them to
// emit, until the engine says that this was all: then it returns nil. An error
// of emit ends it.
type replayer func(ctx context.Context, start uint64, emit func(seq uint64, payload []byte) error) error

// A reply is what a replay brings to the goroutine of Run.
type reply struct {
	attempt, seq uint64
	payload      []byte
	ended        bool
	err          error // why it ended early
}

// startReplay begins a replay, in place of the one that may still run.
func (f *Feed) startReplay(ctx context.Context, a action) {
	f.stopReplay()
	ctx, f.stopReplay = context.WithCancel(ctx)
	f.replays.Go(func() {
		err := f.replay(ctx, a)
		f.tell(ctx, reply{attempt: a.attempt, ended: true, err: err})
	})
}

// replay waits for its turn and replays.
func (f *Feed) replay(ctx context.Context, a action) error {
	select {
	case <-time.After(pauseBefore(a.tries)):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := f.cfg.Replays.acquire(ctx); err != nil {
		return err
	}
	defer f.cfg.Replays.release()
	within, cancel := context.WithTimeout(ctx, f.cfg.ReplayTimeout)
	defer cancel()
	n := 0
	return f.replayer(within, a.seq, func(seq uint64, payload []byte) error {
		if n++; n > maxReplayed {
			return errEndless
		}
		if !f.tell(within, reply{attempt: a.attempt, seq: seq, payload: payload}) {
			return errStopped
		}
		return nil
	})
}

// tell hands r to the goroutine of Run, unless it is too late.
func (f *Feed) tell(ctx context.Context, r reply) bool {
	select {
	case f.replies <- r:
		return true
	case <-ctx.Done():
		return false
	}
}

// pauseBefore returns the pause before the n-th try of a repair; the first one
// has a short one too, which bounds how often an engine is asked.
func pauseBefore(n int) time.Duration {
	if n > 1 {
		return min(shortestPause<<min(n-2, 10), longestPause)
	}
	return shortestPause / 10
}

// replayOverZMQ is the replayer of engines: a DEALER sends an empty frame and
// the first number wanted, and a ROUTER answers with one message a batch.
func (f *Feed) replayOverZMQ(ctx context.Context, start uint64, emit func(seq uint64, payload []byte) error) error {
	d, err := zmqsock.DialDealer(ctx, zmqsock.DealerConfig{Endpoint: f.cfg.Replay, MaxMessage: f.cfg.MaxPayload + maxHeading})
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Send(nil, binary.BigEndian.AppendUint64(nil, start)); err != nil {
		return err
	}
	return f.drain(start, d.Receive, d.Close, emit)
}

// drain hands what a replay from start on brings to emit, up to its end. It
// calls stop, which makes receive fail, if nothing comes for AnswerTimeout, and
// later for half of it. What is out of order, or was not asked for, is nothing:
// an engine must not hold a place in the line by repeating itself.
func (f *Feed) drain(start uint64, receive func() ([][]byte, error), stop func(), emit func(seq uint64, payload []byte) error) error {
	left := f.cfg.AnswerTimeout // of the silence that is allowed
	silence := time.AfterFunc(left, stop)
	defer silence.Stop()
	for misshapen := 0; ; {
		asked := time.Now()
		silence.Reset(left)
		frames, err := receive()
		if err != nil {
			return err
		}
		silence.Stop() // what follows may wait for Run, not for the engine
		left -= time.Since(asked)
		seq, payload, ok := readReply(frames)
		switch {
		case !ok:
			f.misshapen.Add(1)
			if misshapen++; misshapen > maxMisshapen {
				return errMisshapen
			}
			continue
		case seq == endOfReplay:
			return nil
		case seq >= start:
			start, left = seq+1, f.cfg.AnswerTimeout/2
		}
		if err := emit(seq, payload); err != nil {
			return err
		}
	}
}

// endOfReplay is the number of the message that ends a replay: -1, signed.
const endOfReplay = math.MaxUint64

// readReply reads a message of a replay, without a topic, as engines sent it
// at first, or with one:
//
//	"" seq payload
//	"" topic seq payload
//	"" ff*8 ""             the end
func readReply(frames [][]byte) (seq uint64, payload []byte, ok bool) {
	if n := len(frames); (n != 3 && n != 4) || len(frames[0]) != 0 || len(frames[n-2]) != 8 {
		return 0, nil, false
	}
	n := len(frames)
	return binary.BigEndian.Uint64(frames[n-2]), frames[n-1], true
}
