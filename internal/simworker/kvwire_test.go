package simworker

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// filled returns a chain of full blocks of two tokens, 1 2, 3 4, and so on.
func filled(blocks int, ns namespace) *chain {
	c := &chain{blockSize: 2, ns: ns, root: rootKey("w", ns)}
	for i := range 2 * blocks {
		c.extend(token(i + 1))
	}
	return c
}

// text shows a MessagePack value, hashes by their place in c.
func text(v any, c *chain) string {
	for i, k := range c.keys {
		switch h := v.(type) {
		case uint64:
			if h == k.external() {
				return fmt.Sprint("H", i)
			}
		case int64:
			if uint64(h) == k.external() {
				return fmt.Sprint("H", i)
			}
		case []byte:
			if string(h) == string(k[:]) {
				return fmt.Sprint("H", i)
			}
		}
	}
	switch v := v.(type) {
	case []any:
		var parts []string
		for _, x := range v {
			parts = append(parts, text(x, c))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case map[string]any:
		var parts []string
		for _, name := range []string{"ts", "events", "data_parallel_rank", "type", "block_hashes", "parent_block_hash", "token_ids",
			"block_size", "lora_id", "medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind", "ownership"} {
			if x, ok := v[name]; ok {
				parts = append(parts, name+":"+text(x, c))
				delete(v, name)
			}
		}
		for name := range v {
			parts = append(parts, "unexpected "+name)
		}
		return "{" + strings.Join(parts, " ") + "}"
	case nil:
		return "-"
	}
	return fmt.Sprint(v)
}

// Every form of a batch, field by field.
func TestPayloadForms(t *testing.T) {
	ns := namespace{adapter: "lora-b", salt: "tenant"}
	c := filled(3, ns)
	j := newJournal(1)
	j.stored(c, []span{{0, 2}, {2, 3}}, false)
	j.stored(c, []span{{0, 1}}, true)
	j.removed(c.keys[:1], false)
	j.removed(c.keys[:1], true)
	j.cleared(false)
	j.cleared(true)
	for _, form := range []struct {
		enc  kvEncoder
		want string
	}{
		{kvEncoder{format: EventMaps}, `
{ts:1.5 events:[
{type:BlockStored block_hashes:[H0 H1] parent_block_hash:- token_ids:[1 2 3 4] block_size:2 lora_id:2 medium:GPU lora_name:lora-b extra_keys:[[lora-b dynamo-cache-salt:tenant] [lora-b]] group_idx:0 kv_cache_spec_kind:full_attention}
{type:BlockStored block_hashes:[H2] parent_block_hash:H1 token_ids:[5 6] block_size:2 lora_id:2 medium:GPU lora_name:lora-b extra_keys:[[lora-b]] group_idx:0 kv_cache_spec_kind:full_attention}
{type:BlockStored block_hashes:[H0] parent_block_hash:- token_ids:[1 2] block_size:2 lora_id:2 medium:CPU_PINNED lora_name:lora-b extra_keys:[[lora-b dynamo-cache-salt:tenant]] group_idx:0 kv_cache_spec_kind:full_attention ownership:kvcr}
{type:BlockRemoved block_hashes:[H0] medium:GPU group_idx:0}
{type:BlockRemoved block_hashes:[H0] medium:CPU_PINNED group_idx:0 ownership:kvcr}
{type:AllBlocksCleared}
{type:AllBlocksCleared ownership:kvcr}
] data_parallel_rank:3}`},
		{kvEncoder{format: EventArrays, salt: SaltBare}, `
[1.5 [
[BlockStored [H0 H1] - [1 2 3 4] 2 2 GPU lora-b [[lora-b tenant] [lora-b]] 0 full_attention]
[BlockStored [H2] H1 [5 6] 2 2 GPU lora-b [[lora-b]] 0 full_attention]
[BlockStored [H0] - [1 2] 2 2 CPU_PINNED lora-b [[lora-b tenant]] 0 full_attention - - kvcr]
[BlockRemoved [H0] GPU 0]
[BlockRemoved [H0] CPU_PINNED 0 - - - kvcr]
[AllBlocksCleared]
[AllBlocksCleared kvcr]
] 3]`},
		{kvEncoder{format: EventShortArrays}, `
[1.5 [
[BlockStored [H0 H1] - [1 2 3 4] 2 2]
[BlockStored [H2] H1 [5 6] 2 2]
[BlockRemoved [H0]]
[AllBlocksCleared]
]]`},
	} {
		for hashes := range HashBytes + 1 {
			enc := form.enc
			enc.hashes, enc.blockSize, enc.rank, enc.adapters = hashes, 2, 3, []string{"lora-a", "lora-b"}
			got := text(unpacked(t, enc.payload(time.UnixMilli(1500), j.open)), c)
			if want := strings.NewReplacer("[\n", "[", "\n]", "]", "\n", " ").Replace(form.want[1:]); got != want {
				t.Errorf("%v, %v:\n got %s\nwant %s", enc.format, hashes, got, want)
			}
		}
	}
}

// Unless an unsigned hash fits a signed number, its form shows on the wire.
func TestHashForms(t *testing.T) {
	var low, high blockKey
	low[24], high[24] = 0x7f, 0x80
	for want, enc := range map[string]kvEncoder{
		"uint64 int64": {hashes: HashUnsigned}, "int64 int64": {hashes: HashSigned}, "[]uint8 []uint8": {hashes: HashBytes},
	} {
		h, _ := unpack(enc.appendHash(nil, high))
		l, _ := unpack(enc.appendHash(nil, low))
		if got := fmt.Sprintf("%T %T", h, l); got != want || naiveHash(h) != 0x80<<56 || naiveHash(l) != 0x7f<<56 {
			t.Errorf("%v: %s, %x %x", enc.hashes, got, naiveHash(h), naiveHash(l))
		}
	}
}

func TestEnumNames(t *testing.T) {
	for _, name := range eventFormats() {
		var f EventFormat
		if err := f.UnmarshalText([]byte(name)); err != nil || f.String() != name {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	var f ReplayFault
	if err := f.UnmarshalText([]byte("loud")); err == nil || !strings.Contains(err.Error(), "none, silent, no-end, endless") {
		t.Errorf("unknown fault: %v", err)
	}
}
