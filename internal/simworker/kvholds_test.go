package simworker

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// held is what a subscriber knows of one tier after all events so far.
type held map[uint64]bool

func (h held) apply(t *testing.T, e kvEvent) {
	t.Helper()
	switch e.kind {
	case "BlockStored":
		if e.parent != nil && !h[*e.parent] {
			t.Errorf("a block is stored behind %x, which is not held", *e.parent)
		}
		if len(e.tokens) != len(e.hashes)*int(e.blockSize) {
			t.Errorf("%d tokens for %d blocks of %d", len(e.tokens), len(e.hashes), e.blockSize)
		}
		for _, hash := range e.hashes {
			if h[hash] {
				t.Errorf("block %x is stored twice", hash)
			}
			h[hash] = true
		}
	case "BlockRemoved":
		for _, hash := range e.hashes {
			if !h[hash] {
				t.Errorf("block %x is removed, but not held", hash)
			}
			delete(h, hash)
		}
	case "AllBlocksCleared":
		clear(h)
	}
}

// Whatever the form: what a libzmq subscriber learns is what the caches hold,
// through stores, evictions, hits in the host pool and a reset, with every
// sequence number once; and a replay says the same again.
func TestPublishesWhatItHolds(t *testing.T) {
	for _, c := range []struct {
		name string
		kv   KVEvents
	}{
		{"maps", KVEvents{Topic: "kv", ReplayFrames: 4}},
		{"arrays of bytes", KVEvents{Format: EventArrays, Hashes: HashBytes}},
		{"signed", KVEvents{Hashes: HashSigned}},
		{"short", KVEvents{Format: EventShortArrays}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := servePublished(t, Config{Models: []string{"m"}, Adapters: []string{"a"}, Ranks: 2, BlockSize: 4, CacheBlocks: 24, HostBlocks: 40, Events: c.kv}, 1)
			ask := func(model, prompt string) {
				body := fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":6,"cache_salt":"s"}`, model, prompt)
				s.post(t, "/v1/completions", body, "x-data-parallel-rank", "1")
			}
			for i := range 12 {
				ask([]string{"m", "a"}[i%2], fmt.Sprintf("a common front of several words and then number %d%d%d", i%5, i, i))
			}
			want := uint64(0) // 1 batch came already, at least
			device, host := held{}, held{}
			frames := c.kv.ReplayFrames
			if frames == 0 {
				frames = 3
			}
			all := s.replayAll(t, 1, frames)
			for i, m := range all {
				if seq := binary.BigEndian.Uint64(m[frames-2]); seq != uint64(i) {
					t.Fatalf("replayed sequence %d, want %d", seq, i)
				}
				b := naiveBatch(t, m[frames-1])
				if b.rank != any(int64(1)) && c.kv.Format != EventShortArrays {
					t.Errorf("rank %v", b.rank)
				}
				for _, e := range b.events {
					if e.ownership == "kvcr" {
						host.apply(t, e)
					} else {
						device.apply(t, e)
					}
				}
			}
			e := s.worker.engine
			var inCache, inHost []uint64
			e.mu.Lock()
			for k := range e.ranks[1].cache.blocks {
				inCache = append(inCache, k.external())
			}
			for k := range e.ranks[1].host.blocks {
				inHost = append(inHost, k.external())
			}
			e.mu.Unlock()
			same(t, "cache", device, inCache)
			if c.kv.Format != EventShortArrays {
				same(t, "host pool", host, inHost)
			}
			// The live messages are the same ones.
			for len(s.live) > 0 || want < uint64(len(all))-1 {
				m := get(t, s.live, "live message")
				want = binary.BigEndian.Uint64(m[1])
				if len(m) != 3 || string(m[0]) != c.kv.Topic || !slices.Equal(m[2], all[want][frames-1]) {
					t.Fatalf("live message %d differs from its replay: %x", want, m)
				}
			}
			if later := s.replay(t, want, frames); len(later) != 1 {
				t.Errorf("a replay from %d has %d batches", want, len(later))
			}
		})
	}
}

func same(t *testing.T, what string, learnt held, holds []uint64) {
	t.Helper()
	if len(holds) == 0 || len(learnt) != len(holds) {
		t.Errorf("%s: %d blocks learnt, %d held", what, len(learnt), len(holds))
	}
	for _, h := range holds {
		if !learnt[h] {
			t.Errorf("%s: block %x was not told", what, h)
		}
	}
}

// The token ids of events are those that /tokenize gives for the same body,
// and what is cached for a salt or an adapter says so.
func TestEventTokensAreTokenizeTokens(t *testing.T) {
	w := newWorker(t, Config{BlockSize: 4, Events: KVEvents{Endpoint: "tcp://127.0.0.1:0"}})
	body := `{"messages":[{"role":"system","content":"be brief and exact"},{"role":"user","content":"what is a mooring?"}],"max_tokens":1,"cache_salt":"tenant"}`
	tokens := decode[tokenizeAnswer](t, ask(t, w.Handler(), "POST", "/tokenize", body)).Tokens
	ask(t, w.Handler(), "POST", "/v1/chat/completions", body)
	b := <-w.engine.ranks[0].journal.batches
	enc := kvEncoder{blockSize: 4}
	e := naiveBatch(t, enc.payload(b.at, b.changes)).events[0]
	var got []token
	for _, id := range e.tokens {
		got = append(got, token(id))
	}
	full := len(tokens) / 4 * 4
	if full == 0 || !slices.Equal(got, tokens[:full]) {
		t.Errorf("tokens %v, want %v", got, tokens[:full])
	}
	if keys := e.extraKeys.([]any); len(keys) != full/4 || !cmp.Equal(keys[0], any([]any{"dynamo-cache-salt:tenant"})) || keys[1] != nil {
		t.Errorf("extra keys %v", keys)
	}
}
