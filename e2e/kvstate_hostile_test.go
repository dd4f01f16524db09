package e2e

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"mooring/internal/zmqsock"
)

// hostileEngine publishes whatever it is told to.
type hostileEngine struct {
	*zmqsock.Publisher
	t   *testing.T
	seq uint64
}

func startHostileEngine(t *testing.T) *hostileEngine {
	t.Helper()
	p, err := zmqsock.Listen(context.Background(), zmqsock.PublisherConfig{Endpoint: "tcp://127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return &hostileEngine{p, t, 0}
}

// send publishes a payload under the next number.
func (h *hostileEngine) send(payload []byte) {
	h.t.Helper()
	h.frames([]byte("kv"), sequence(h.seq), payload)
	h.seq++
}

// sequence is a number in the 8 bytes that it has in a message.
func sequence(n uint64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[7-i] = byte(n >> (8 * i))
	}
	return b
}

func (h *hostileEngine) frames(frames ...[]byte) {
	h.t.Helper()
	if err := h.Publish(frames); err != nil {
		h.t.Fatal(err)
	}
}

type event = map[string]any

// batch publishes events of a rank.
func (h *hostileEngine) batch(rank int, events ...any) {
	h.t.Helper()
	payload, err := msgp.AppendIntf(nil, []any{1.5, events, rank})
	if err != nil {
		h.t.Fatal(err)
	}
	h.send(payload)
}

// stored says that blocks of 16 tokens are there, with hashes from a number on.
func stored(first uint64, tokens []uint32, changes event) event {
	var hashes, ids []any
	for i := range len(tokens) / 16 {
		hashes = append(hashes, first+uint64(i))
	}
	for _, id := range tokens[:16*len(hashes)] {
		ids = append(ids, id)
	}
	e := event{"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": nil, "token_ids": ids, "block_size": 16, "medium": "GPU"}
	for name, value := range changes {
		e[name] = value
	}
	return e
}

// TestKVHostileEngine has an engine publish what cannot be, between what can: that
// counts, and nothing else does, there or at another worker.
func TestKVHostileEngine(t *testing.T) {
	t.Parallel()
	h := startHostileEngine(t)
	s := newKVStack(t, stackConfig{
		models: []string{"sim", "sim"}, flagsOfEach: [][]string{kvSockets(), nil},
		workerKeys: func(w *simWorker) string {
			if _, publishes := w.ready["kv_events"]; publishes {
				return kvKeys(w)
			}
			return fmt.Sprintf(", kv_events: %q", h.Endpoint())
		},
	})
	honest, hostile := s.workers[0], s.workers[1]
	s.seed(honest.address, "Astronomy")
	s.inStep(honest)
	eventually(t, 10*time.Second, "the router has subscribed", func() bool { return h.Stats().Peers == 1 })

	tokens := s.tokens(honest, "Botany")
	h.frames([]byte("kv"))
	h.frames([]byte("kv"), []byte{1, 2, 3}, []byte("x"))
	h.send(nil)
	h.send([]byte("no MessagePack at all"))
	h.send(bytes.Repeat([]byte{0x91}, 100_000))           // arrays in arrays
	h.send([]byte{0x93, 0, 0xdd, 0xff, 0xff, 0xff, 0xff}) // 4 Gi events, it says
	h.batch(5, stored(900, tokens, nil))
	h.batch(0,
		stored(1, tokens[:4*16], event{"group_idx": 1, "kv_cache_spec_kind": "mamba"}),
		stored(800, tokens, event{"block_size": 64}),
		stored(700, tokens, event{"parent_block_hash": uint64(700)}),
		stored(600, tokens, event{"block_hashes": []any{uint64(1), uint64(1)}, "token_ids": stored(0, tokens[:32], nil)["token_ids"]}),
		event{"type": "BlocksPainted", "colour": "red"},
		stored(1, tokens[:10*16], event{"group_idx": 0, "kv_cache_spec_kind": "full_attention"}),
		stored(1, tokens[9*16:10*16], event{"group_idx": 1, "kv_cache_spec_kind": "mamba"}),
		event{"type": "BlockRemoved", "block_hashes": []any{uint64(3)}, "group_idx": 1},
	)
	h.batch(0, stored(11, tokens[10*16:], event{"parent_block_hash": uint64(10)}))

	body := promptBody(tokens, 0)
	want := len(tokens) / 16
	eventually(t, 10*time.Second, "what is true of it counts", func() bool { return s.explainBody("any", body).at(t, hostile).Device == want })
	for reason, least := range map[string]float64{
		"malformed_frames": 2, "malformed_batch": 4, "wrong_rank": 1, "wrong_block_size": 1, "self_parent": 1, "repeated_hash": 1,
		"unknown_type": 1, "non_main_kind": 2, "non_main_group": 1,
	} {
		if n := s.series("mooring_kv_feed_dropped_total", "reason", reason); n < least {
			t.Errorf("%v dropped as %s, want %v", n, reason, least)
		}
	}
	if k, o := s.known(hostile), s.ownerOf(hostile, 0); k.Blocks != want || !o.Holed {
		t.Errorf("%+v, %+v; want %d blocks, and that some are missing", k, o, want)
	}
	if c := s.explain("any", "Astronomy"); c.at(t, honest).Device < 26 || c.at(t, hostile).Device != 0 {
		t.Errorf("the other worker's blocks: %+v", c)
	}
	s.equalLoad()
	if r := s.mustPost("/v1/completions", "after all that", body); r.header.Get("X-Sim-Worker") != hostile.address {
		t.Errorf("it went to %s, want %s", r.header.Get("X-Sim-Worker"), hostile.address)
	}
}
