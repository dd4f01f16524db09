package feed

import (
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// form is how an engine encodes.
type form struct {
	maps, bytes bool
}

// sample is a batch of n stores of one block of 16 tokens each, in one chain
// from the given block on, and of as many removals if remove is set.
func (f form) sample(first, n int, remove bool) []byte {
	events := n
	if remove {
		events *= 2
	}
	b := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 3), 1.7e9)
	b = msgp.AppendArrayHeader(b, uint32(events))
	for i := first; i < first+n; i++ {
		b = f.store(b, i)
	}
	if remove {
		for i := first; i < first+n; i++ {
			b = f.removal(b, i)
		}
	}
	return msgp.AppendUint64(b, 0)
}

func (f form) hash(b []byte, i int) []byte {
	h := uint64(i+1) * 0x9e3779b97f4a7c15
	if !f.bytes {
		return msgp.AppendUint64(b, h)
	}
	digest := make([]byte, 32)
	for k := range 8 {
		digest[31-k] = byte(h >> (8 * k))
	}
	return msgp.AppendBytes(b, digest)
}

func (f form) store(b []byte, i int) []byte {
	key := func(name string) {
		if f.maps {
			b = msgp.AppendString(b, name)
		}
	}
	if f.maps {
		b = msgp.AppendMapHeader(b, 10)
	} else {
		b = msgp.AppendArrayHeader(b, 10)
	}
	key("type")
	b = msgp.AppendString(b, "BlockStored")
	key("block_hashes")
	b = f.hash(msgp.AppendArrayHeader(b, 1), i)
	key("parent_block_hash")
	if i == 0 {
		b = msgp.AppendNil(b)
	} else {
		b = f.hash(b, i-1)
	}
	key("token_ids")
	b = msgp.AppendArrayHeader(b, 16)
	for k := range 16 {
		b = msgp.AppendUint64(b, uint64(i*31+k*977)%128_000)
	}
	key("block_size")
	b = msgp.AppendUint64(b, 16)
	key("lora_id")
	b = msgp.AppendNil(b)
	key("medium")
	b = msgp.AppendString(b, "GPU")
	key("lora_name")
	b = msgp.AppendNil(b)
	key("extra_keys")
	b = msgp.AppendNil(b)
	key("group_idx")
	return msgp.AppendUint64(b, 0)
}

func (f form) removal(b []byte, i int) []byte {
	if f.maps {
		b = msgp.AppendString(msgp.AppendMapHeader(b, 2), "type")
		b = msgp.AppendString(msgp.AppendString(b, "BlockRemoved"), "block_hashes")
		return f.hash(msgp.AppendArrayHeader(b, 1), i)
	}
	b = msgp.AppendString(msgp.AppendArrayHeader(b, 2), "BlockRemoved")
	return f.hash(msgp.AppendArrayHeader(b, 1), i)
}

var forms = []struct {
	name string
	form form
}{{"array", form{}}, {"map", form{maps: true}}, {"map-bytes", form{maps: true, bytes: true}}}

// BenchmarkDecode decodes 64 stores of 16 tokens.
func BenchmarkDecode(b *testing.B) {
	for _, f := range forms {
		b.Run(f.name, func(b *testing.B) {
			payload := f.form.sample(0, 64, false)
			var d decoder
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				if batch, err := d.decode(payload); err != nil || len(batch.events) != 64 {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApply is a whole batch of 64 stores and 64 removals, from payload
// to index, at 100,000 other blocks of the same worker.
func BenchmarkApply(b *testing.B) {
	for _, f := range forms {
		b.Run(f.name, func(b *testing.B) {
			ix := index.NewSet(index.Config{}).Open(fleet.Partition{})
			feed, err := New(Config{Endpoint: "tcp://127.0.0.1:1", Worker: kvstate.Worker{WorkerID: 1}, Index: ix, PublisherID: 1})
			if err != nil {
				b.Fatal(err)
			}
			feed.series = feed.cfg.Metrics.open("1", 0)
			now := time.Now()
			for i := range 100 {
				feed.apply(uint64(i), f.form.sample(i*1000, 1000, false), now)
			}
			payload := f.form.sample(100_000, 64, true)
			b.ReportAllocs()
			for b.Loop() {
				feed.apply(0, payload, now)
			}
			if ix.Len() != 100_000 || feed.counts != [reasons]uint64{} {
				b.Errorf("%d blocks, %v", ix.Len(), feed.counts)
			}
			b.ReportMetric(float64(b.N)*128/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkClears is an engine that clears its cache all the time.
func BenchmarkClears(b *testing.B) {
	ix := index.NewSet(index.Config{}).Open(fleet.Partition{})
	feed, err := New(Config{Endpoint: "tcp://127.0.0.1:1", Worker: kvstate.Worker{WorkerID: 1}, Index: ix, PublisherID: 1})
	if err != nil {
		b.Fatal(err)
	}
	feed.series = feed.cfg.Metrics.open("1", 0)
	payload, now := pack(b, `[0, [["AllBlocksCleared"]]]`), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		feed.apply(0, payload, now)
	}
}
