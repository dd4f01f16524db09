package feed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"mooring/internal/fleet"
	"mooring/internal/zmqsock"
	"mooring/kvstate"
	"mooring/kvstate/blockhash"
	"mooring/kvstate/index"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is engines without sockets, each with a real feed, and one index. It
// lives in a synctest bubble.
type rig struct {
	t       *testing.T
	index   *index.Index
	replays ReplayLimit
	metrics *Metrics
	engines map[string]*engine
}

// An engine is a fake one: it publishes, remembers, and replays.
type engine struct {
	rig        *rig
	feed       *Feed
	messages   chan zmqsock.Message
	connection uint64
	stop       func()

	next   uint64
	cut    int // the next replay ends after so many, if not negative
	lose   map[uint64]bool
	silent bool          // replays say nothing at all
	hold   chan struct{} // replays know what to say, but wait for its end
	asked  []uint64

	mu  sync.Mutex
	log []numbered // what its replay socket has
}

func newRig(t *testing.T) *rig {
	ix := index.NewSet(index.Config{MaxBlocks: 1 << 16}).Open(fleet.Partition{Model: "m", Group: "g"})
	return &rig{t: t, index: ix, engines: map[string]*engine{}, replays: NewReplayLimit(2)}
}

func (r *rig) engine(name string, worker uint64, rank uint32, replay bool, blockSize int) *engine {
	cfg := Config{
		Endpoint: "tcp://127.0.0.1:1", Worker: kvstate.Worker{WorkerID: worker, DPRank: rank},
		Index: r.index, PublisherID: 1000 + worker, BlockSize: blockSize, Replays: r.replays, Metrics: r.metrics,
	}
	cfg.Owner.Slot.Digest = [16]byte{byte(worker), byte(rank)}
	if replay {
		cfg.Replay = "tcp://127.0.0.1:1"
	}
	f, err := New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	e := &engine{rig: r, feed: f, messages: make(chan zmqsock.Message, 1<<14), cut: -1}
	f.replayer = e.replay
	f.series = f.cfg.Metrics.open(f.cfg.Name, rank)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); f.follow(ctx, e.messages) }()
	e.stop = func() { cancel(); <-ended }
	r.engines[name] = e
	return e
}

func (r *rig) stop() {
	for _, e := range r.engines {
		e.stop()
	}
}

// replay answers like an engine; it runs in a goroutine of the feed, while the
// test waits.
func (e *engine) replay(ctx context.Context, start uint64, emit func(uint64, []byte) error) error {
	e.asked = append(e.asked, start)
	if e.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	left := e.cut
	e.cut = -1
	e.mu.Lock()
	log := e.log
	e.mu.Unlock()
	if e.hold != nil {
		<-e.hold
	}
	for _, b := range log {
		switch {
		case b.seq < start || e.lose[b.seq]:
			continue
		case left == 0:
			return errors.New("cut")
		}
		left--
		if err := emit(b.seq, b.payload); err != nil {
			return err
		}
	}
	if left == 0 {
		return errors.New("cut")
	}
	return nil
}

func (e *engine) connect() {
	e.connection++
	e.feed.link.notify(zmqsock.Event{Connected: true, Connection: e.connection})
	synctest.Wait()
}

func (e *engine) disconnect() {
	e.feed.link.notify(zmqsock.Event{Connection: e.connection})
	synctest.Wait()
}

// publish makes a batch; lost: nobody gets it but by replay.
func (e *engine) publish(payload []byte, lost bool) {
	seq := e.next
	e.next++
	e.mu.Lock()
	e.log = append(e.log, numbered{seq, payload})
	e.mu.Unlock()
	if !lost {
		e.live(seq, payload)
	}
}

func (e *engine) live(seq uint64, payload []byte) {
	e.send([]byte("kv"), binary.BigEndian.AppendUint64(nil, seq), payload)
}

func (e *engine) send(frames ...[]byte) {
	e.messages <- zmqsock.Message{Frames: frames, Connection: e.connection}
	synctest.Wait()
}

// restart is another process at the address.
func (e *engine) restart() {
	e.disconnect()
	e.next, e.log = 0, nil
	e.connect()
}

// resolve is what a reconciler would make of the feeds.
func (r *rig) resolve() (rs []kvstate.Resolution) {
	for _, e := range r.engines {
		rs = append(rs, e.resolve())
	}
	return rs
}

func (e *engine) resolve() kvstate.Resolution {
	in := kvstate.Inputs{
		DiscoveryKnown: true, Owner: e.feed.cfg.Owner, Sources: []kvstate.SourceAdvertisement{e.feed.Source()},
		Live: func(kvstate.Worker) bool { return true }, Holed: e.feed.Details().Holed,
	}
	if a, ok := e.feed.Attachment(); ok {
		in.Attachments = append(in.Attachments, a)
	}
	if s, err := e.feed.Status(); err == nil {
		in.Status = &s
	}
	if receipt, ok := e.feed.Receipt(); ok {
		in.Receipt = &receipt
	}
	return kvstate.Resolve(in)
}

// match looks a prompt up for every projected worker.
func (r *rig) match(tokens []uint32, seed uint64) string {
	p, err := kvstate.Aggregate(r.resolve())
	if err != nil {
		r.t.Fatal(err)
	}
	size := r.index.BlockSize()
	if size == 0 {
		return "no block size\n"
	}
	var m index.Matches
	r.index.Match(p, blockhash.Append(nil, tokens, size, seed), &m)
	var out strings.Builder
	for _, found := range m.All() {
		fmt.Fprintf(&out, "%s:", found.Worker)
		for _, tier := range []struct {
			name string
			n    int
		}{{"device", found.Device}, {"host", found.HostPinned}, {"disk", found.Disk}, {"external", found.External}} {
			if tier.n > 0 {
				fmt.Fprintf(&out, " %s %d", tier.name, tier.n)
			}
		}
		if found.Holed {
			out.WriteString(" holed")
		}
		out.WriteString("\n")
	}
	if out.Len() == 0 {
		return "nobody\n"
	}
	return out.String()
}

// state is what an operator sees of a feed.
func (e *engine) state() string {
	d, r := e.feed.Details(), e.resolve()
	out := fmt.Sprintf("%s %s generation=%d", r.State, d.State, d.Generation)
	if d.Sequenced {
		out += fmt.Sprintf(" last=%d", d.LastSeq)
	}
	if s, err := e.feed.Status(); err == nil {
		out += fmt.Sprintf(" barrier=%d cursor=%d", s.Attachment.ReadyAtOutboundCursor, s.OutboundCursor)
	}
	if d.Gaps > 0 {
		out += fmt.Sprintf(" gaps=%d missing=%d", d.Gaps, d.Missing)
	}
	if d.Holed {
		out += " holed"
	}
	if d.ClearsOften {
		out += " clears_often"
	}
	if d.BlockSizeError != "" {
		out += " (" + d.BlockSizeError + ")"
	}
	for reason, n := range d.Dropped {
		if n > 0 {
			out += fmt.Sprintf(" %s=%d", Reason(reason), n)
		}
	}
	if len(e.asked) > 0 {
		out += fmt.Sprint(" asked=", e.asked)
		e.asked = nil
	}
	return out + "\n"
}
