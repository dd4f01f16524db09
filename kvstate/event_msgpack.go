package kvstate

import (
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// AppendEvents appends a batch: a MessagePack array of events, each a map by field
// name, as [EventTopic] carries it. It fails for an event whose kind or tier has
// no name.
func AppendEvents(b []byte, events []RouterEvent) (_ []byte, err error) {
	b = msgp.AppendArrayHeader(b, uint32(len(events)))
	for i := range events {
		if b, err = events[i].appendMsg(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (e *RouterEvent) appendMsg(b []byte) ([]byte, error) {
	tier, ok := tiers.name(e.Tier)
	if !ok {
		return nil, fmt.Errorf("event %d: no name for %s", e.EventID, e.Tier)
	}
	size := uint32(3)
	for _, present := range [...]bool{e.Domain.Present, e.StateSource != nil, e.SessionID != nil} {
		if present {
			size++
		}
	}
	b = msgp.AppendMapHeader(b, size)
	b = msgp.AppendUint64(msgp.AppendString(b, "worker_id"), e.WorkerID)
	b = msgp.AppendString(msgp.AppendString(b, "storage_tier"), tier)
	if e.Domain.Present {
		b = msgp.AppendString(msgp.AppendString(b, "residency_domain"), e.Domain.Name)
	}
	b = msgp.AppendMapHeader(msgp.AppendString(b, "event"), 3)
	b = msgp.AppendUint64(msgp.AppendString(b, "event_id"), e.EventID)
	b, err := e.appendMsgData(msgp.AppendString(b, "data"))
	if err != nil {
		return nil, err
	}
	b = msgp.AppendUint32(msgp.AppendString(b, "dp_rank"), e.DPRank)
	if e.StateSource != nil {
		b = e.StateSource.appendMsg(msgp.AppendString(b, "state_source"))
	}
	if e.SessionID != nil {
		b = msgp.AppendString(msgp.AppendString(b, "session_id"), *e.SessionID)
	}
	return b, nil
}

func (e *RouterEvent) appendMsgData(b []byte) ([]byte, error) {
	switch e.Kind {
	case Stored:
		b = msgp.AppendString(msgp.AppendMapHeader(b, 1), "stored")
		return e.Store.appendMsg(b), nil
	case Removed:
		b = msgp.AppendString(msgp.AppendMapHeader(b, 1), "removed")
		b = msgp.AppendString(msgp.AppendMapHeader(b, 1), "block_hashes")
		b = msgp.AppendArrayHeader(b, uint32(len(e.Removed)))
		for _, hash := range e.Removed {
			b = msgp.AppendUint64(b, hash)
		}
		return b, nil
	case Cleared:
		return msgp.AppendString(b, "cleared"), nil
	}
	return nil, fmt.Errorf("event %d: no name for %s", e.EventID, e.Kind)
}

func (s *StoreData) appendMsg(b []byte) []byte {
	size := uint32(1)
	if s.HasParent {
		size++
	}
	if s.StartPosition != nil {
		size++
	}
	b = msgp.AppendMapHeader(b, size)
	if s.HasParent {
		b = msgp.AppendUint64(msgp.AppendString(b, "parent_hash"), s.Parent)
	}
	if s.StartPosition != nil {
		b = msgp.AppendUint32(msgp.AppendString(b, "start_position"), *s.StartPosition)
	}
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "blocks"), uint32(len(s.Blocks)))
	for i, block := range s.Blocks {
		var mm []MMObject
		if i < len(s.MM) {
			mm = s.MM[i]
		}
		b = appendMsgBlock(b, block, mm)
	}
	return b
}

func appendMsgBlock(b []byte, block Block, mm []MMObject) []byte {
	size := uint32(2)
	if mm != nil {
		size++
	}
	b = msgp.AppendMapHeader(b, size)
	b = msgp.AppendUint64(msgp.AppendString(b, "block_hash"), block.External)
	b = msgp.AppendUint64(msgp.AppendString(b, "tokens_hash"), block.Local)
	if mm == nil {
		return b
	}
	b = msgp.AppendMapHeader(msgp.AppendString(b, "mm_extra_info"), 1)
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "mm_objects"), uint32(len(mm)))
	for _, object := range mm {
		b = msgp.AppendMapHeader(b, 2)
		b = msgp.AppendUint64(msgp.AppendString(b, "mm_hash"), object.Hash)
		b = msgp.AppendArrayHeader(msgp.AppendString(b, "offsets"), uint32(len(object.Offsets)))
		for _, span := range object.Offsets {
			b = msgp.AppendArrayHeader(b, 2)
			b = msgp.AppendUint64(msgp.AppendUint64(b, span[0]), span[1])
		}
	}
	return b
}

func (id *CacheOwnerID) appendMsg(b []byte) []byte {
	domain := id.Pool.IndexerDomain
	b = msgp.AppendMapHeader(b, 2)
	b = msgp.AppendMapHeader(msgp.AppendString(b, "pool"), 2)
	b = msgp.AppendMapHeader(msgp.AppendString(b, "indexer_domain"), 2)
	b = appendMsgDigest(msgp.AppendString(b, "cache_semantics"), domain.CacheSemantics.Digest, domain.CacheSemantics.Source)
	b = appendMsgDigest(msgp.AppendString(b, "routing_scope"), domain.RoutingScope.Digest, domain.RoutingScope.Source)
	b = msgp.AppendUint64(msgp.AppendString(b, "dc_id"), uint64(id.Pool.DC))
	return appendMsgDigest(msgp.AppendString(b, "slot"), id.Slot.Digest, id.Slot.Source)
}

func appendMsgDigest(b []byte, digest Digest, source IdentitySource) []byte {
	b = msgp.AppendMapHeader(b, 2)
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "digest"), uint32(len(digest)))
	for _, v := range digest {
		b = msgp.AppendUint8(b, v)
	}
	return msgp.AppendString(msgp.AppendString(b, "source"), source.String())
}
