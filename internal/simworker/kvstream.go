package simworker

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"time"

	"mooring/internal/zmqsock"
)

// kvStream publishes the batches of one rank, and repeats them.
type kvStream struct {
	cfg    KVEvents
	enc    kvEncoder
	buffer *replayBuffer
	counts *kvCounters
	logger *slog.Logger

	publisher *zmqsock.Publisher
	router    *zmqsock.Router // nil: no replay

	epoch uint64 // owned by publish
}

// publish numbers and sends a batch. It does not block.
func (s *kvStream) publish(b batch) {
	if b.epoch != s.epoch { // a new engine knows nothing of the batches before it
		s.epoch = b.epoch
		s.buffer.clear()
	}
	if len(b.changes) == 0 {
		return
	}
	payload := s.enc.payload(b.at, b.changes)
	s.buffer.add(sent{b.seq, payload})
	if n := uint64(s.cfg.DropEvery); n > 0 && b.seq%n == n-1 {
		s.counts.withheld.Add(1)
		return
	}
	if err := s.publisher.Publish([][]byte{[]byte(s.cfg.Topic), sequence64(b.seq), payload}); err != nil {
		// The number is used up: subscribers see a gap.
		s.counts.failed.Add(1)
		s.logger.Warn("publish kv events", "rank", s.enc.rank, "sequence", b.seq, "err", err)
		return
	}
	s.counts.published.Add(1)
}

// close ends the sockets; what is queued there is lost.
func (s *kvStream) close() {
	if s.publisher != nil {
		s.publisher.Close()
	}
	if s.router != nil {
		s.router.Close()
	}
}

// replayEnd is the sequence of the message that ends an answer: -1.
const replayEnd = math.MaxUint64

// endlessPause is between the rounds of a replay that never ends.
const endlessPause = time.Millisecond

// errReplay is a request that is no replay request.
var errReplay = errors.New("want an empty frame and 8 bytes")

// replay answers a request, an empty frame and the first wanted sequence
// number, with every batch the buffer has from there on, each as
//
//	"" SEQUENCE PAYLOAD       or       "" TOPIC SEQUENCE PAYLOAD
//
// and at the end one with sequence -1 and an empty payload.
func (s *kvStream) replay(ctx context.Context, request [][]byte, reply func(frames ...[]byte) error) error {
	if len(request) != 2 || len(request[0]) != 0 || len(request[1]) != 8 {
		return errReplay
	}
	from := binary.BigEndian.Uint64(request[1])
	s.counts.replays.Add(1)
	s.logger.Debug("replay", "rank", s.enc.rank, "from", from)
	if s.cfg.ReplayFault == ReplaySilent {
		<-ctx.Done()
		return nil
	}
	if sleepUntil(ctx, time.Now().Add(s.cfg.ReplayDelay)) != nil {
		return nil // the peer is gone
	}
	for {
		for _, b := range s.buffer.since(from) {
			if err := reply(s.replayed(b)...); err != nil {
				return err
			}
		}
		switch s.cfg.ReplayFault {
		case ReplayNoEnd:
			return nil
		case ReplayEndless:
			if sleepUntil(ctx, time.Now().Add(endlessPause)) != nil {
				return nil
			}
		default:
			return reply(s.replayed(sent{seq: replayEnd})...)
		}
	}
}

// replayed returns the frames of one message of an answer.
func (s *kvStream) replayed(b sent) [][]byte {
	if s.cfg.ReplayFrames == 4 {
		return [][]byte{nil, []byte(s.cfg.Topic), sequence64(b.seq), b.payload}
	}
	return [][]byte{nil, sequence64(b.seq), b.payload}
}

// sequence64 is a sequence number as a frame.
func sequence64(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
