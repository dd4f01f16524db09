package kvstate

import (
	"bytes"
	"errors"
	"fmt"
)

// Batch is what [DecodeEvents] read.
type Batch struct {
	Events  []RouterEvent // in order, without those refused
	Refused int           // events that could not be read
	Why     error         // of the first one refused; nil if none was
}

// DecodeEvents reads a batch: a MessagePack array of events, each a map by field
// name, in any order of keys and any width of integers. An event that cannot be
// read is refused alone; what it changed is lost, and its number is missing. The
// error is for a payload that is no such array, or ends early, or does not end.
// Nothing returned refers to payload. It allocates at most 25 bytes for a byte of
// payload, whose size is the caller's to bound.
func DecodeEvents(payload []byte) (Batch, error) {
	r := eventMsgReader{msgReader: msgReader{rest: payload}}
	var batch Batch
	n := r.arrayLen()
	for ; n > 0 && r.err == nil; n-- {
		start := r.rest
		var e RouterEvent
		if r.event(&e); r.err == nil {
			batch.Events = append(batch.Events, e)
			continue
		}
		why := r.err
		r.rest, r.err = start, nil
		if r.skip(0); r.err == nil {
			batch.Refused++
			batch.Why = firstError(batch.Why, why)
		}
	}
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%d bytes after the batch", len(r.rest))
	}
	if r.err != nil {
		return Batch{}, fmt.Errorf("event batch: %w", r.err)
	}
	return batch, nil
}

// firstError returns a, or b if a is nil.
func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// eventMsgReader keeps the last owner, shared while its bytes stay the same: a
// stream repeats one owner in each event.
type eventMsgReader struct {
	msgReader
	lastSource []byte
	lastOwner  *CacheOwnerID
}

func (r *eventMsgReader) event(e *RouterEvent) {
	names := []string{"worker_id", "event", "storage_tier", "residency_domain", "state_source", "session_id"}
	r.object(names, 2, func(name string) {
		switch name {
		case "worker_id":
			e.WorkerID = r.uint()
		case "event":
			r.body(e)
		case "storage_tier":
			readMsgEnum(&r.msgReader, tiers, &e.Tier)
		case "residency_domain":
			e.Domain = WireDomain{Present: true, Name: string(r.text())}
		case "state_source":
			e.StateSource = r.owner()
		case "session_id":
			if !r.isNil() {
				session := string(r.text())
				e.SessionID = &session
			}
		}
	})
}

func (r *eventMsgReader) body(e *RouterEvent) {
	r.object([]string{"event_id", "data", "dp_rank"}, 2, func(name string) {
		switch name {
		case "event_id":
			e.EventID = r.uint()
		case "data":
			r.data(e)
		case "dp_rank":
			e.DPRank = r.uint32()
		}
	})
}

func (r *eventMsgReader) data(e *RouterEvent) {
	if kind := r.stringNext(); kind != nil {
		if e.Kind = Cleared; string(kind) != Cleared.String() {
			r.fail(fmt.Errorf("unknown kind or one without a body: %q", clip(string(kind))))
		}
		return
	}
	if n := r.mapLen(); n != 1 && r.err == nil {
		r.fail(fmt.Errorf("%d kinds, want 1", n))
	}
	if readMsgEnum(&r.msgReader, eventKinds, &e.Kind); r.err != nil {
		return
	}
	switch e.Kind {
	case Stored:
		r.store(&e.Store)
	case Removed:
		r.object([]string{"block_hashes"}, 1, func(string) {
			n := r.arrayLen()
			e.Removed = make([]uint64, 0, n)
			for ; n > 0 && r.err == nil; n-- {
				e.Removed = append(e.Removed, r.hash())
			}
		})
	default:
		r.fail(errors.New("cleared takes no body"))
	}
}

func (r *eventMsgReader) store(s *StoreData) {
	r.object([]string{"blocks", "parent_hash", "start_position"}, 1, func(name string) {
		switch name {
		case "blocks":
			n := r.arrayLen()
			s.Blocks = make([]Block, 0, min(n, len(r.rest)/minMsgBlock))
			for ; n > 0 && r.err == nil; n-- {
				r.block(s)
			}
		case "parent_hash":
			if s.HasParent = !r.isNil(); s.HasParent {
				s.Parent = r.hash()
			}
		case "start_position":
			if !r.isNil() {
				position := r.uint32()
				s.StartPosition = &position
			}
		}
	})
}

// minMsgBlock is the size of the smallest block: a map with two named hashes.
const minMsgBlock = 1 + len("?block_hash?") + len("?tokens_hash?")

func (r *eventMsgReader) block(s *StoreData) {
	var block Block
	var mm []MMObject
	r.object([]string{"block_hash", "tokens_hash", "mm_extra_info"}, 2, func(name string) {
		switch name {
		case "block_hash":
			block.External = r.hash()
		case "tokens_hash":
			block.Local = r.hash()
		case "mm_extra_info":
			if !r.isNil() {
				mm = r.mm()
			}
		}
	})
	if r.err == nil {
		s.add(block, mm)
	}
}

func (r *eventMsgReader) mm() []MMObject {
	objects := []MMObject{}
	r.object([]string{"mm_objects"}, 1, func(string) {
		for n := r.arrayLen(); n > 0 && r.err == nil; n-- {
			objects = append(objects, r.mmObject())
		}
	})
	return objects
}

func (r *eventMsgReader) mmObject() (o MMObject) {
	r.object([]string{"mm_hash", "offsets"}, 2, func(name string) {
		if name == "mm_hash" {
			o.Hash = r.hash()
			return
		}
		n := r.arrayLen()
		o.Offsets = make([][2]uint64, 0, min(n, len(r.rest)/3)) // 3: an array of two small numbers
		for ; n > 0 && r.err == nil; n-- {
			if size := r.arrayLen(); size != 2 && r.err == nil {
				r.fail(fmt.Errorf("a span of %d numbers, want 2", size))
			}
			o.Offsets = append(o.Offsets, [2]uint64{r.uint(), r.uint()})
		}
	})
	return o
}

// owner reads a cache owner; nil is none.
func (r *eventMsgReader) owner() *CacheOwnerID {
	if r.isNil() {
		return nil
	}
	if r.lastOwner != nil && bytes.HasPrefix(r.rest, r.lastSource) {
		r.rest = r.rest[len(r.lastSource):]
		return r.lastOwner
	}
	start, owner := r.rest, new(CacheOwnerID)
	if r.readOwner(owner); r.err == nil {
		r.lastOwner, r.lastSource = owner, start[:len(start)-len(r.rest)]
	}
	return owner
}
