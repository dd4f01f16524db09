package feed

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/tinylib/msgp/msgp"
)

// TestDecode runs testdata/decode: a batch as JSON, and what it is read as.
func TestDecode(t *testing.T) {
	var d decoder
	datadriven.RunTest(t, "testdata/decode", func(t *testing.T, data *datadriven.TestData) string {
		b, err := d.decode(pack(t, data.Input))
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		return shown(b)
	})
}

func shown(b *batch) string {
	var out strings.Builder
	if b.hasRank {
		fmt.Fprintf(&out, "rank %d\n", b.rank)
	}
	for i := range b.events {
		out.WriteString(b.events[i].String() + "\n")
	}
	for r, n := range b.dropped {
		if n > 0 {
			fmt.Fprintf(&out, "dropped %d: %s\n", n, Reason(r))
		}
	}
	if b.blind {
		out.WriteString("blind\n")
	}
	return out.String()
}

// The table of facts/zmq4.md 6: what a few bytes may claim.
func TestDecodeHostile(t *testing.T) {
	valid := pack(t, `[1.5,[["BlockStored",[1,2],null,[1,2,3,4],2],{"type":"BlockRemoved","block_hashes":[1,"bytes:0102030405060708090a"]}],0]`)
	for name, b := range map[string][]byte{
		"empty":                       {},
		"nil":                         {0xc0},
		"text":                        msgp.AppendString(nil, "hello"),
		"never used":                  {0xc1},
		"batch of 2^32":               {0xdd, 0xff, 0xff, 0xff, 0xff},
		"map of 2^32":                 {0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1, 'a', 1, 0xa1, 'b', 1},
		"2^32 events":                 {0x92, 0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90},
		"event of 2^32":               {0x92, 0xc0, 0x91, 0xdd, 0xff, 0xff, 0xff, 0xff},
		"event map of 2^32":           {0x92, 0xc0, 0x91, 0xdf, 0xff, 0xff, 0xff, 0xff},
		"2M nested arrays":            bytes.Repeat([]byte{0x91}, 2<<20),
		"2M nested arrays as time":    append([]byte{0x92}, bytes.Repeat([]byte{0x91}, 2<<20)...),
		"2M nested arrays as event":   append([]byte{0x92, 0xc0}, bytes.Repeat([]byte{0x91}, 2<<20)...),
		"2M nested maps as event":     append([]byte{0x92, 0xc0}, bytes.Repeat([]byte{0x81}, 2<<20)...),
		"time of 4 GiB":               {0x92, 0xc6, 0xff, 0xff, 0xff, 0xff, 0},
		"two events keys":             pack(t, `{"events":[],"events":[]}`),
		"no events":                   pack(t, `{"ts":1}`),
		"one element":                 pack(t, `[1]`),
		"events as a number":          pack(t, `[1,2]`),
		"rank as text":                pack(t, `[1,[],"0"]`),
		"key as a number":             pack(t, `[[1]]`),
		"cut in the middle of events": valid[:len(valid)-3],
	} {
		var before, after runtime.MemStats
		var d decoder
		runtime.ReadMemStats(&before)
		got, err := d.decode(b)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: accepted: %s", name, shown(got))
		}
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 1<<16 {
			t.Errorf("%s: %d bytes allocated", name, spent)
		}
	}
}

// What an event may claim costs that event only.
func TestDecodeBounds(t *testing.T) {
	good := pack(t, `["AllBlocksCleared"]`)
	event := func(build func(b []byte) []byte) []byte {
		b := msgp.AppendArrayHeader(nil, 2)
		b = msgp.AppendNil(b)
		b = msgp.AppendArrayHeader(b, 2)
		return append(build(b), good...)
	}
	removal := func(n int) []byte {
		return event(func(b []byte) []byte {
			b = msgp.AppendArrayHeader(b, 2)
			b = msgp.AppendString(b, "BlockRemoved")
			b = msgp.AppendArrayHeader(b, uint32(n))
			return append(b, make([]byte, n)...)
		})
	}
	var d decoder
	for _, c := range []struct {
		name    string
		payload []byte
		want    string
	}{
		{"most hashes", removal(maxHashes), ""},
		{"too many hashes", removal(maxHashes + 1), "dropped 1: too_large\nblind\n"},
		{"nested deep", event(func(b []byte) []byte {
			b = append(b, 0x91)
			return append(append(b, bytes.Repeat([]byte{0x91}, 1<<20)...), 0xc0)
		}), "dropped 1: undecodable\nblind\n"},
		{"hash of 65 bytes", pack(t, `[0,[["BlockRemoved",["bytes:`+strings.Repeat("00", 65)+`"]],["AllBlocksCleared"]]]`), "dropped 1: undecodable\nblind\n"},
		{"too many tokens", event(func(b []byte) []byte {
			b = msgp.AppendMapHeader(b, 2)
			b = msgp.AppendString(b, "type")
			b = msgp.AppendString(b, "BlockStored")
			b = msgp.AppendString(b, "token_ids")
			b = msgp.AppendArrayHeader(b, maxTokens+1)
			return append(b, make([]byte, maxTokens+1)...)
		}), "dropped 1: too_large\n"},
	} {
		b, err := d.decode(c.payload)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if last := b.events[len(b.events)-1]; last.kind != cleared {
			t.Errorf("%s: the event after it is lost", c.name)
		}
		b.events = nil
		if got := shown(b); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	events := msgp.AppendArrayHeader(msgp.AppendNil(msgp.AppendArrayHeader(nil, 2)), maxEvents+5)
	for range maxEvents + 5 {
		events = append(events, good...)
	}
	if b, err := d.decode(events); err != nil || len(b.events) != maxEvents || b.dropped[TooLarge] != 5 || !b.blind {
		t.Errorf("too many events: %v", err)
	}
}

// 20,000 damaged batches neither panic nor change what later ones mean.
func TestDecodeMutated(t *testing.T) {
	valid := pack(t, `[1.5,[["BlockStored",[1,2],null,[1,2,3,4],2,null,"GPU","ad",[["ad",["x",1]],null],0,"mla_attention",null,"LOCAL"],{"type":"BlockRemoved","block_hashes":[1,"bytes:0102030405060708090a"]}],0]`)
	var d decoder
	b, err := d.decode(valid)
	if err != nil {
		t.Fatal(err)
	}
	want := shown(b)
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		damaged := bytes.Clone(valid)
		for range 1 + r.IntN(4) {
			damaged[r.IntN(len(damaged))] = byte(r.Uint32())
		}
		damaged = damaged[:len(damaged)-r.IntN(3)]
		if b, err := d.decode(damaged); err == nil {
			normalizeAll(b)
		}
	}
	if b, err := d.decode(valid); err != nil || shown(b) != want {
		t.Errorf("after the damaged ones: %v", err)
	}
}

// normalizeAll normalizes a batch with a new normalizer for each domain.
func normalizeAll(b *batch) (changes int) {
	var n [2]normalizer
	for i := range b.events {
		e := &b.events[i]
		domain, ok := domainOf(e)
		if !ok {
			continue
		}
		if c, _, ok := n[domain].normalize(e, domain, 2); ok {
			changes++
			for range c.blocks {
				changes++
			}
		}
	}
	return changes
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`[1.5,[["BlockStored",[1,-2],3,[1,2,3,4],2,null,"GPU",null,[["ad",["x",1]],null],0,"mla_attention",null,"LOCAL"]],0]`,
		`{"ts":1,"events":[{"type":"BlockRemoved","block_hashes":["bytes:0102030405060708090a"],"medium":"CPU"}],"dp_rank":3}`,
		`[0,[["AllBlocksCleared"],["New",{"a":[1]}],{"type":"Ignored"},["BlockStored",[5],null,[[1,2],[2,3]],2]]]`,
		`[0,[{"type":"BlockStored","block_hashes":[1,2],"token_ids":[1,2,3,4],"block_size":2,"block_mm_infos":[{"mm_objects":[{"mm_hash":7}]},null],"extra_keys":[["dynamo-cache-salt:s"],null]}]]`,
	} {
		f.Add(pack(f, text))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var d decoder
		b, err := d.decode(payload)
		rest, skipErr := skip(payload)
		if msgpRest, msgpErr := msgp.Skip(payload); skipErr == nil && (msgpErr != nil || len(msgpRest) != len(rest)) {
			t.Errorf("skip: %d bytes left, msgp says %d, %v", len(rest), len(msgpRest), msgpErr)
		}
		if err != nil {
			return
		}
		if skipErr != nil {
			t.Errorf("decoded what cannot be skipped: %v", skipErr)
		}
		if n := len(d.hashes) + len(d.tokens); n > len(payload) {
			t.Errorf("%d elements from %d bytes", n, len(payload))
		}
		first := shown(b)
		normalizeAll(b)
		if again, err := d.decode(payload); err != nil || shown(again) != first {
			t.Errorf("decoded twice: %q, then %q, %v", first, shown(again), err)
		}
	})
}
