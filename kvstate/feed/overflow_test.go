package feed

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"mooring/internal/zmqsock"
)

// A netEngine is one on real sockets of ours.
type netEngine struct {
	t   *testing.T
	pub *zmqsock.Publisher

	mu  sync.Mutex
	log [][]byte
}

func startNetEngine(t *testing.T) (e *netEngine, replay string) {
	t.Helper()
	e = &netEngine{t: t}
	router, err := zmqsock.ListenRouter(t.Context(), zmqsock.RouterConfig{Endpoint: "tcp://127.0.0.1:0", Serve: e.serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { router.Close() })
	if e.pub, err = zmqsock.Listen(t.Context(), zmqsock.PublisherConfig{Endpoint: "tcp://127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.pub.Close() })
	return e, router.Endpoint()
}

func (e *netEngine) serve(_ context.Context, request [][]byte, reply func(...[]byte) error) error {
	e.mu.Lock()
	log := e.log
	e.mu.Unlock()
	for n := binary.BigEndian.Uint64(request[len(request)-1]); n < uint64(len(log)); n++ {
		if err := reply(nil, binary.BigEndian.AppendUint64(nil, n), log[n]); err != nil {
			return err
		}
	}
	return reply(nil, binary.BigEndian.AppendUint64(nil, endOfReplay), nil)
}

func (e *netEngine) publish() {
	e.mu.Lock()
	n := len(e.log)
	payload := block(e.t, n)
	e.log = append(e.log, payload)
	e.mu.Unlock()
	e.pub.Publish([][]byte{[]byte("kv"), binary.BigEndian.AppendUint64(nil, uint64(n)), payload})
}

// B73: the feed stops taking batches for as long as it likes (here: until they
// have all come). The engine is not held up, what was dropped is counted, and it
// comes by a replay though the engine says nothing more. Without a replay the
// feed is holed, and the next batch shows the gap.
func TestFeedStopsReading(t *testing.T) {
	for _, repairs := range []bool{true, false} {
		t.Run(map[bool]string{true: "replay", false: "no_replay"}[repairs], func(t *testing.T) {
			e, replay := startNetEngine(t)
			if !repairs {
				replay = ""
			}
			stopped, goOn := make(chan struct{}), make(chan struct{})
			var once sync.Once
			f := run(t, Config{Endpoint: e.pub.Endpoint(), Replay: replay, Changed: func() {
				once.Do(func() { close(stopped); <-goOn }) // at the first connection
			}})
			<-stopped
			const n = 3000
			e.flood(f, n)
			close(goOn)
			d := f.until("end", func() {}, func(d Details) bool {
				return d.Dropped[QueueOverflow] > 0 && (d.State == Following) == repairs && d.Sequenced
			})
			if e.pub.Stats().Dropped > 0 {
				t.Errorf("the publisher had to wait for us: %+v", e.pub.Stats())
			}
			last := uint64(len(e.log) - 1)
			if repairs {
				if d.LastSeq != last || d.Holed || d.Gaps > 0 || f.blocks() != len(e.log) {
					t.Errorf("%d blocks of %d, %+v", f.blocks(), len(e.log), d)
				}
				return
			}
			if d.LastSeq == last || !d.Holed {
				t.Errorf("%+v", d)
			}
			e.publish()
			d = f.until("gap", func() {}, func(d Details) bool { return d.LastSeq == last+1 })
			if !d.Holed || d.Missing < d.Dropped[QueueOverflow] || d.State != Following {
				t.Errorf("%+v", d)
			}
		})
	}
}

// flood publishes until the subscription has arrived, then n batches, and waits
// until all have come to the feed's socket.
func (e *netEngine) flood(f *running, n uint64) {
	e.t.Helper()
	late := time.After(patience)
	await := func(what string, kick func(), good func(zmqsock.SubscriberStats) bool) {
		e.t.Helper()
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for !good(f.sub.Stats()) {
			select {
			case <-tick.C:
				kick()
			case <-late:
				e.t.Fatalf("%s: %+v", what, f.sub.Stats())
			}
		}
	}
	await("subscription", e.publish, func(s zmqsock.SubscriberStats) bool { return s.Received > 0 })
	for range n / 500 { // the publisher's queue has 2,000
		for range 500 {
			e.publish()
		}
		await("batches", func() {}, func(s zmqsock.SubscriberStats) bool { return s.Received == e.pub.Stats().Queued })
	}
}
