package simworker

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
)

// unpacked reads one MessagePack value with all of it at hand: numbers as
// int64, or uint64 if they are larger, byte strings as []byte, arrays as []any,
// maps as map[string]any.
func unpacked(t *testing.T, b []byte) any {
	t.Helper()
	v, rest := unpack(b)
	if len(rest) > 0 {
		t.Fatalf("%d bytes behind the value", len(rest))
	}
	return v
}

func unpack(b []byte) (v any, rest []byte) {
	tag, b := b[0], b[1:]
	number := func(n int) uint64 {
		var x uint64
		for _, c := range b[:n] {
			x = x<<8 | uint64(c)
		}
		b = b[n:]
		return x
	}
	take := func(n uint64) []byte { v := b[:n]; b = b[n:]; return v }
	array := func(n uint64) any {
		list := make([]any, n)
		for i := range list {
			list[i], b = unpack(b)
		}
		return list
	}
	fields := func(n uint64) any {
		m := make(map[string]any)
		for range n {
			var k, v any
			k, b = unpack(b)
			v, b = unpack(b)
			m[k.(string)] = v
		}
		return m
	}
	unsigned := func(x uint64) any {
		if x > math.MaxInt64 {
			return x
		}
		return int64(x)
	}
	switch {
	case tag < 0x80:
		v = int64(tag)
	case tag < 0x90:
		v = fields(uint64(tag & 15))
	case tag < 0xa0:
		v = array(uint64(tag & 15))
	case tag < 0xc0:
		v = string(take(uint64(tag & 31)))
	case tag >= 0xe0:
		v = int64(int8(tag))
	default:
		switch tag {
		case 0xc0:
			v = nil
		case 0xc2, 0xc3:
			v = tag == 0xc3
		case 0xc4:
			v = take(number(1))
		case 0xc5:
			v = take(number(2))
		case 0xcb:
			v = math.Float64frombits(number(8))
		case 0xcc:
			v = unsigned(number(1))
		case 0xcd:
			v = unsigned(number(2))
		case 0xce:
			v = unsigned(number(4))
		case 0xcf:
			v = unsigned(number(8))
		case 0xd0:
			v = int64(int8(number(1)))
		case 0xd1:
			v = int64(int16(number(2)))
		case 0xd2:
			v = int64(int32(number(4)))
		case 0xd3:
			v = int64(number(8))
		case 0xd9:
			v = string(take(number(1)))
		case 0xda:
			v = string(take(number(2)))
		case 0xdc:
			v = array(number(2))
		case 0xdd:
			v = array(number(4))
		case 0xde:
			v = fields(number(2))
		default:
			panic(fmt.Sprintf("tag %#x", tag))
		}
	}
	return v, b
}

// kvEvent is an event in any of its forms.
type kvEvent struct {
	kind      string
	hashes    []uint64
	parent    *uint64
	tokens    []int64
	blockSize int64
	medium    any
	loraName  any
	extraKeys any
	ownership any
}

// kvBatch is a batch in any of its forms.
type kvBatch struct {
	ts     float64
	rank   any
	events []kvEvent
}

// naiveBatch reads a payload of any form.
func naiveBatch(t *testing.T, payload []byte) kvBatch {
	t.Helper()
	var b kvBatch
	var events []any
	switch v := unpacked(t, payload).(type) {
	case map[string]any:
		b.ts, b.rank, events = v["ts"].(float64), v["data_parallel_rank"], v["events"].([]any)
	case []any:
		b.ts, events = v[0].(float64), v[1].([]any)
		if len(v) > 2 {
			b.rank = v[2]
		}
	}
	for _, e := range events {
		b.events = append(b.events, naiveEvent(e))
	}
	return b
}

func naiveEvent(v any) kvEvent {
	f, ok := v.(map[string]any)
	if !ok {
		f = make(map[string]any)
		names := map[string][]string{
			"BlockStored": {"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium",
				"lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality", "ownership"},
			"BlockRemoved":     {"type", "block_hashes", "medium", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality", "ownership"},
			"AllBlocksCleared": {"type", "ownership"},
		}
		list := v.([]any)
		for i, x := range list {
			f[names[list[0].(string)][i]] = x
		}
	}
	e := kvEvent{kind: f["type"].(string), medium: f["medium"], loraName: f["lora_name"], extraKeys: f["extra_keys"], ownership: f["ownership"]}
	if hashes, ok := f["block_hashes"].([]any); ok {
		for _, h := range hashes {
			e.hashes = append(e.hashes, naiveHash(h))
		}
	}
	if p := f["parent_block_hash"]; p != nil {
		h := naiveHash(p)
		e.parent = &h
	}
	if tokens, ok := f["token_ids"].([]any); ok {
		for _, x := range tokens {
			e.tokens = append(e.tokens, x.(int64))
		}
		e.blockSize = f["block_size"].(int64)
	}
	return e
}

func naiveHash(v any) uint64 {
	switch h := v.(type) {
	case int64:
		return uint64(h)
	case uint64:
		return h
	case []byte:
		return binary.BigEndian.Uint64(h[len(h)-8:])
	}
	panic(fmt.Sprintf("hash %v", v))
}
