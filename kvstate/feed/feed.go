package feed

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"mooring/internal/zmqsock"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// maxHeading bounds the topic and the sequence number of a message, in bytes.
const maxHeading = 4 << 10

// Feed follows one rank of one engine. See the package comment.
type Feed struct {
	cfg      Config
	sub      *zmqsock.Subscriber
	series   *series  // set by Run
	replayer replayer // replayOverZMQ, but for tests
	link     link

	// Owned by the goroutine of Run.
	seq        sequencer
	decoder    decoder
	normal     [2]normalizer // by domain
	owners     [2]index.Owner
	lost       [2]bool // holed until the domain is cleared
	dirty      [2]bool // the index may hold something of the domain
	owned      bool    // the engine speaks of the cache-owner domain
	claimed    bool    // the partition has the configured block size
	missized   uint64  // the size of the blocks refused last, until the domain is cleared; 0: none
	clears     clearRate
	counts     [reasons]uint64 // what was not applied
	connection uint64
	topic      []byte    // of this connection; nil: none came yet
	warned     time.Time // when something was last logged as a warning
	apart      time.Time // when the connection was lost, or Run began
	agent      agent
	replies    chan reply // few, as each may be of MaxPayload
	replays    sync.WaitGroup
	stopReplay context.CancelFunc

	misshapen atomic.Uint64 // messages of replays

	mu struct {
		sync.Mutex
		shown agent
	}
}

// New checks cfg. Nothing is dialled before Run, and until then the feed is
// detached.
func New(cfg Config) (*Feed, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Feed{cfg: cfg, replies: make(chan reply, 8), stopReplay: func() {}}
	f.replayer = f.replayOverZMQ
	f.link.changed = make(chan struct{}, 1)
	if f.sub, err = f.subscriber(); err != nil {
		return nil, fmt.Errorf("feed: %w", err)
	}
	f.dirty = [2]bool{true, true} // an earlier feed of this worker or owner
	f.seq = sequencer{canReplay: cfg.Replay != "", dropped: &f.counts}
	worker := kvstate.WorkerKey(cfg.Worker)
	f.owners = [2]index.Owner{
		kvstate.WorkerDomain:     {Key: worker, Domain: kvstate.WorkerDomain},
		kvstate.CacheOwnerDomain: {Key: cfg.Owner.Key(), Domain: kvstate.CacheOwnerDomain, Engine: worker},
	}
	f.claimed = cfg.BlockSize > 0 && cfg.Index.SetBlockSize(cfg.BlockSize)
	if cfg.BlockSize > 0 && !f.claimed {
		f.agent.BlockSizeError = fmt.Sprintf("configured block size %d, the partition has %d", cfg.BlockSize, cfg.Index.BlockSize())
	}
	f.agent.Holed = true
	f.mu.shown = f.agent
	return f, nil
}

func (f *Feed) subscriber() (*zmqsock.Subscriber, error) {
	return zmqsock.NewSubscriber(zmqsock.SubscriberConfig{
		Endpoint: f.cfg.Endpoint, Topics: []string{f.cfg.Topic}, MaxMessage: f.cfg.MaxPayload + maxHeading,
		QueueMessages: 1024, QueueBytes: 8 << 20, MarkDrops: true, Notify: f.link.notify, Logger: f.cfg.Logger,
	})
}

// Run follows the engine until ctx ends, and returns its error. By then all
// that it started has ended, and nothing is written to the index any more; what
// is there stays, until Forget. Call it once.
func (f *Feed) Run(ctx context.Context) error {
	f.series = f.cfg.Metrics.open(f.cfg.Name, f.cfg.Worker.DPRank)
	defer f.cfg.Metrics.close(f.cfg.Name, f.cfg.Worker.DPRank)
	ended := make(chan struct{})
	go func() { defer close(ended); f.sub.Run(ctx) }()
	f.follow(ctx, f.sub.Messages())
	<-ended
	return ctx.Err()
}

// Forget clears what the feed stored, in both domains. Call it after Run ended,
// when the worker is gone for good.
func (f *Feed) Forget() {
	for _, o := range f.owners {
		f.cfg.Index.Clear(o)
	}
	if f.claimed {
		f.cfg.Index.ReleaseBlockSize()
		f.claimed = false
	}
}

// follow does what Run does, with messages from anywhere.
func (f *Feed) follow(ctx context.Context, messages <-chan zmqsock.Message) {
	defer func() {
		f.stopReplay()
		f.replays.Wait()
		f.agent.Connected = false
		f.publish()
	}()
	f.apart = time.Now()
	f.gauge()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-f.link.changed:
			f.linkChanged(ctx)
		case m, ok := <-messages:
			if !ok {
				messages = nil // ctx is over
				continue
			}
			f.message(ctx, m)
		case r := <-f.replies:
			f.reply(ctx, r)
		}
		f.fillIn(ctx)
		f.publish()
	}
}

// message takes a live message: topic, sequence number in 8 bytes, payload; or
// the mark of some that were dropped.
func (f *Feed) message(ctx context.Context, m zmqsock.Message) {
	mark := len(m.Frames) == 0
	switch {
	case m.Connection < f.connection && !mark:
		f.counts[StaleConnection]++
		return
	case m.Connection > f.connection:
		f.newConnection(ctx, m.Connection)
	}
	if mark {
		f.missed(ctx, m)
		return
	}
	if len(m.Frames) != 3 || len(m.Frames[1]) != 8 {
		f.counts[MalformedFrames]++
		return
	}
	topic, seq, payload := m.Frames[0], binary.BigEndian.Uint64(m.Frames[1]), m.Frames[2]
	switch {
	case seq >= maxSeq: // endOfReplay, for one
		f.counts[MalformedFrames]++
		return
	case f.cfg.Topic != "" && string(topic) != f.cfg.Topic, f.topic != nil && string(topic) != string(f.topic):
		f.counts[PublisherUnknown]++
		return
	case !f.believes(ctx, topic):
		f.counts[PublisherUnknown]++
		return
	}
	f.do(ctx, f.seq.received(seq, payload))
}

// missed takes the mark of messages that came faster than they were applied.
func (f *Feed) missed(ctx context.Context, m zmqsock.Message) {
	f.counts[QueueOverflow] += m.Dropped
	f.warn("kv events dropped: they come too fast", "batches", m.Dropped)
	if m.Connection == f.connection && f.agent.Connected { // else the next one asks
		f.do(ctx, f.seq.missed())
	}
}

func (f *Feed) reply(ctx context.Context, r reply) {
	if !r.ended {
		f.do(ctx, f.seq.replayed(r.attempt, r.seq, r.payload))
		return
	}
	outcome := f.series.replayed
	if r.err != nil {
		outcome = f.series.cut
		f.cfg.Logger.Debug("kv replay cut", "error", r.err)
	}
	outcome.Inc()
	f.do(ctx, f.seq.replayEnded(r.attempt, r.err == nil))
}

// do does what the sequencer wants, in order.
func (f *Feed) do(ctx context.Context, actions []action) {
	if f.counts[ForeignReplay] > f.agent.Dropped[ForeignReplay] { // as of the last step
		f.warn("kv replay is not of the engine that publishes", "replay", f.cfg.Replay)
	}
	for _, a := range actions {
		switch a.kind {
		case apply:
			if f.agent.PublisherError != "" {
				f.counts[PublisherUnknown]++ // of a replay
				continue
			}
			f.apply(a.seq, a.payload, time.Now())
		case hole:
			f.markLost()
			f.agent.Gaps++
			f.agent.Missing += a.until - a.seq
			f.series.gaps.Inc()
			f.series.missing.Add(float64(a.until - a.seq))
			f.warn("kv events missing", "first", a.seq, "until", a.until)
		case restart:
			f.restarted()
		case replay:
			f.startReplay(ctx, a)
		}
	}
}

// warn logs what an engine brought about: at most once a second as a warning,
// so that a broken one does not fill the log.
func (f *Feed) warn(what string, args ...any) {
	level := slog.LevelDebug
	if now := time.Now(); now.Sub(f.warned) >= time.Second {
		level, f.warned = slog.LevelWarn, now
	}
	f.cfg.Logger.Log(context.Background(), level, what, args...)
}

// markLost says that what the index holds may not be what the engine does.
func (f *Feed) markLost() {
	f.lost[kvstate.WorkerDomain] = true
	if f.owned {
		f.lost[kvstate.CacheOwnerDomain] = true
	}
}

// restarted forgets what belonged to the engine process before.
func (f *Feed) restarted() {
	f.stopReplay()
	f.series.restarts.Inc()
	f.agent.Restarts++
	f.warn("engine restarted", "last", f.agent.LastSeq)
	f.clear(kvstate.WorkerDomain) // detach
	f.agent.Cursor++
	f.normal[kvstate.WorkerDomain].forget()
	f.normal[kvstate.CacheOwnerDomain].groups = nil
	f.attach()
}

// startOver takes the engine for another one, of which nothing is known but what a
// replay has.
func (f *Feed) startOver(ctx context.Context) {
	f.seq.begin()
	f.seq.restart()
	f.do(ctx, f.seq.actions)
	f.do(ctx, f.seq.connected())
}

// attach begins a new generation, from an empty worker domain.
func (f *Feed) attach() {
	f.clear(kvstate.WorkerDomain)
	f.agent.Cursor++
	f.agent.Generation++
	f.agent.Barrier = f.agent.Cursor
	f.agent.Sequenced = false
}

// clear empties a domain in the index, after which it is known again.
func (f *Feed) clear(d kvstate.Domain) {
	if f.dirty[d] {
		f.cfg.Index.Clear(f.owners[d])
	}
	f.dirty[d], f.lost[d] = false, false
	if d == kvstate.WorkerDomain {
		f.missized = 0
	}
}
