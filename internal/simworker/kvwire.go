package simworker

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// saltTag is what Dynamo puts before a salt.
const saltTag = "dynamo-cache-salt:"

// What vLLM calls the tiers, and what marks the events of Dynamo's host pool.
const (
	mediumDevice = "GPU"
	mediumHost   = "CPU_PINNED"
	ownedByKVCR  = "kvcr"
)

// kvEncoder writes batches of one rank as vLLM writes them. It is immutable.
type kvEncoder struct {
	format    EventFormat
	hashes    HashForm
	salt      SaltForm
	blockSize int
	rank      int
	adapters  []string // an adapter's lora_id is its position here, from 1
}

// payload returns the MessagePack of a batch. In the present form
//
//	{"ts":1.5,"events":[EVENT..],"data_parallel_rank":0}
//
// and in the older ones [1.5,[EVENT..],0] and [1.5,[EVENT..]].
func (e *kvEncoder) payload(at time.Time, changes []change) []byte {
	if e.format == EventShortArrays {
		changes = slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return c.host })
	}
	ts := float64(at.UnixNano()) / 1e9
	var b []byte
	switch e.format {
	case EventMaps:
		b = msgp.AppendMapHeader(b, 3)
		b = msgp.AppendFloat64(msgp.AppendString(b, "ts"), ts)
		b = e.appendEvents(msgp.AppendString(b, "events"), changes)
		return msgp.AppendInt(msgp.AppendString(b, "data_parallel_rank"), e.rank)
	case EventArrays:
		b = msgp.AppendArrayHeader(b, 3)
		b = e.appendEvents(msgp.AppendFloat64(b, ts), changes)
		return msgp.AppendInt(b, e.rank)
	}
	b = msgp.AppendArrayHeader(b, 2)
	return e.appendEvents(msgp.AppendFloat64(b, ts), changes)
}

func (e *kvEncoder) appendEvents(b []byte, changes []change) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(changes)))
	for i := range changes {
		fields := e.fields(&changes[i])
		if e.format == EventMaps {
			b = msgp.AppendMapHeader(b, uint32(len(fields)))
		} else {
			b = msgp.AppendArrayHeader(b, uint32(len(fields)))
		}
		for _, f := range fields {
			if e.format == EventMaps {
				b = msgp.AppendString(b, f.name)
			}
			b = append(b, f.value...)
		}
	}
	return b
}

// kvField is one field of an event, its value encoded.
type kvField struct {
	name  string
	value []byte
}

// fields returns an event's fields in their order as an array:
//
//	BlockStored, block_hashes, parent_block_hash, token_ids, block_size, lora_id,
//	medium, lora_name, extra_keys, group_idx, kv_cache_spec_kind,
//	kv_cache_spec_sliding_window, locality, ownership
//	BlockRemoved, block_hashes, medium, group_idx, kv_cache_spec_kind,
//	kv_cache_spec_sliding_window, locality, ownership
//	AllBlocksCleared, ownership
//
// As in vLLM, trailing fields that say nothing are left out, and of a map every
// such field. The ownership is that of the host pool's events.
func (e *kvEncoder) fields(c *change) []kvField {
	null := msgp.AppendNil(nil)
	var out []kvField
	switch c.kind {
	case blocksCleared:
		out = []kvField{{"type", msgp.AppendString(nil, "AllBlocksCleared")}}
		if c.host {
			out = append(out, kvField{"ownership", msgp.AppendString(nil, ownedByKVCR)})
		}
		return out
	case blocksRemoved:
		out = []kvField{{"type", msgp.AppendString(nil, "BlockRemoved")}, {"block_hashes", e.hashList(c.keys)}}
		if e.format == EventShortArrays {
			return out
		}
		out = append(out, kvField{"medium", medium(c.host)}, kvField{"group_idx", msgp.AppendInt(nil, 0)})
		if c.host && e.format == EventArrays {
			out = append(out, kvField{"kv_cache_spec_kind", null}, kvField{"kv_cache_spec_sliding_window", null}, kvField{"locality", null})
		}
	case blocksStored:
		out = e.stored(c)
		if e.format == EventShortArrays {
			return out
		}
		if c.host && e.format == EventArrays {
			out = append(out, kvField{"kv_cache_spec_sliding_window", null}, kvField{"locality", null})
		}
	}
	if c.host {
		out = append(out, kvField{"ownership", msgp.AppendString(nil, ownedByKVCR)})
	}
	return out
}

// stored returns the fields of a BlockStored up to kv_cache_spec_kind, or in
// the short form up to lora_id.
func (e *kvEncoder) stored(c *change) []kvField {
	parent, loraID, loraName := msgp.AppendNil(nil), msgp.AppendNil(nil), msgp.AppendNil(nil)
	if !c.root {
		parent = e.appendHash(nil, c.parent)
	}
	if c.ns.adapter != "" {
		loraID = msgp.AppendInt(nil, 1+slices.Index(e.adapters, c.ns.adapter))
		loraName = msgp.AppendString(nil, c.ns.adapter)
	}
	tokens := msgp.AppendArrayHeader(make([]byte, 0, 5*len(c.tokens)+5), uint32(len(c.tokens)))
	for _, id := range c.tokens {
		tokens = msgp.AppendUint32(tokens, id)
	}
	out := []kvField{
		{"type", msgp.AppendString(nil, "BlockStored")},
		{"block_hashes", e.hashList(c.keys)},
		{"parent_block_hash", parent},
		{"token_ids", tokens},
		{"block_size", msgp.AppendInt(nil, e.blockSize)},
		{"lora_id", loraID},
	}
	if e.format == EventShortArrays {
		return out
	}
	return append(out,
		kvField{"medium", medium(c.host)},
		kvField{"lora_name", loraName},
		kvField{"extra_keys", e.extraKeys(c)},
		kvField{"group_idx", msgp.AppendInt(nil, 0)},
		kvField{"kv_cache_spec_kind", msgp.AppendString(nil, "full_attention")},
	)
}

// extraKeys returns what beside the tokens went into each block's hash, a list
// or nil for each: the adapter's name into every one, the salt into the first
// of a sequence.
func (e *kvEncoder) extraKeys(c *change) []byte {
	b := msgp.AppendArrayHeader(nil, uint32(len(c.keys)))
	for i := range c.keys {
		var keys []string
		if c.ns.adapter != "" {
			keys = append(keys, c.ns.adapter)
		}
		if c.ns.salt != "" && c.root && i == 0 {
			keys = append(keys, e.saltKey(c.ns.salt))
		}
		if len(keys) == 0 {
			b = msgp.AppendNil(b)
			continue
		}
		b = msgp.AppendArrayHeader(b, uint32(len(keys)))
		for _, key := range keys {
			b = msgp.AppendString(b, key)
		}
	}
	return b
}

func (e *kvEncoder) saltKey(salt string) string {
	if e.salt == SaltBare || strings.HasPrefix(salt, saltTag) {
		return salt
	}
	return saltTag + salt
}

func (e *kvEncoder) hashList(keys []blockKey) []byte {
	b := msgp.AppendArrayHeader(nil, uint32(len(keys)))
	for _, key := range keys {
		b = e.appendHash(b, key)
	}
	return b
}

func (e *kvEncoder) appendHash(b []byte, key blockKey) []byte {
	switch {
	case e.hashes == HashBytes:
		return msgp.AppendBytes(b, key[:])
	case e.hashes == HashSigned && key.external() > math.MaxInt64:
		return msgp.AppendInt64(b, int64(key.external()))
	}
	return msgp.AppendUint64(b, key.external())
}

func medium(host bool) []byte {
	if host {
		return msgp.AppendString(nil, mediumHost)
	}
	return msgp.AppendString(nil, mediumDevice)
}
