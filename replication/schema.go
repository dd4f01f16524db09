package replication

import (
	"fmt"
	"math"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// AppendEvent appends e in MessagePack.
func AppendEvent(b []byte, e *BindingEvent) []byte {
	pairs := byte(7)
	if e.SenderID != 0 {
		pairs += 2
	}
	if e.TTLMillis != nil {
		pairs++
	}
	b = append(b, 0x80|pairs)
	b = appendString(appendString(b, "model_name"), e.ModelName)
	b = appendString(appendString(b, "routing_group"), e.RoutingGroup)
	b = appendString(appendString(b, "session_id"), e.SessionID)
	b = appendUint(appendString(b, "worker_id"), e.WorkerID)
	b = appendString(b, "dp_rank")
	if e.DPRank != nil {
		b = appendUint(b, uint64(*e.DPRank))
	} else {
		b = append(b, 0xc0)
	}
	b = appendUint(appendString(b, "sequence"), e.Sequence)
	b = appendUint(appendString(b, "writer_id"), e.WriterID)
	if e.SenderID != 0 {
		b = appendUint(appendString(b, "sender_id"), e.SenderID)
		b = appendUint(appendString(b, "sender_seq"), e.SenderSeq)
	}
	if e.TTLMillis != nil {
		b = appendUint(appendString(b, "ttl_ms"), *e.TTLMillis)
	}
	return b
}

// required marks the keys that were seen.
type required uint8

const (
	hasModel required = 1 << iota
	hasGroup
	hasSession
	hasWorker
	hasSequence
	hasWriter
	hasAll = 1<<iota - 1
)

// DecodeEvent reads a BindingEvent. It accepts any order of keys and any width of
// integers, and ignores keys that it does not know. Errors: ErrMalformed,
// ErrMissingKey.
func DecodeEvent(payload []byte) (e BindingEvent, err error) {
	d := decoder{rest: payload}
	var has required
	d.fields(func(key []byte) bool {
		switch string(key) {
		case "model_name":
			e.ModelName, has = d.str(), has|hasModel
		case "routing_group":
			e.RoutingGroup, has = d.str(), has|hasGroup
		case "session_id":
			e.SessionID, has = d.str(), has|hasSession
		case "worker_id":
			e.WorkerID, has = d.uint(), has|hasWorker
		case "dp_rank":
			e.DPRank = d.rank()
		case "sequence":
			e.Sequence, has = d.uint(), has|hasSequence
		case "writer_id":
			e.WriterID, has = d.uint(), has|hasWriter
		case "sender_id":
			e.SenderID = d.uint()
		case "sender_seq":
			e.SenderSeq = d.uint()
		case "ttl_ms":
			if !d.isNil() {
				ttl := d.uint()
				e.TTLMillis = &ttl
			}
		default:
			return false
		}
		return true
	})
	switch {
	case d.err != nil:
		return BindingEvent{}, d.err
	case has != hasAll:
		return BindingEvent{}, ErrMissingKey
	}
	return e, nil
}

// senderOf returns the sender of an event, without reading more of it than that
// takes; 0 if it has none or cannot be read.
func senderOf(payload []byte) (id uint64) {
	d := decoder{rest: payload}
	d.fields(func(key []byte) bool {
		if string(key) != "sender_id" {
			return false
		}
		id = d.uint()
		return true
	})
	if d.err != nil {
		return 0
	}
	return id
}

func (d *decoder) rank() *uint32 {
	if d.isNil() {
		return nil
	}
	v := d.uint()
	if v > math.MaxUint32 {
		d.fail("a rank of more than 32 bits")
		return nil
	}
	rank := uint32(v)
	return &rank
}

// AppendSync appends m in MessagePack: only the keys that its type has.
func AppendSync(b []byte, m *SyncMessage) []byte {
	start := len(b)
	b = append(b, 0x80)
	key := func(name string) {
		b[start]++
		b = appendString(b, name)
	}
	num := func(name string, v uint64) { key(name); b = appendUint(b, v) }
	bin := func(name string, v []byte) { key(name); b = appendBytes(b, v) }
	text := func(name, v string) { key(name); b = appendString(b, v) }
	text("type", string(m.Type))
	num("sender_id", m.SenderID)
	num("sender_seq", m.SenderSeq)
	if m.hasPartition() {
		text("model_name", m.Partition.Model)
		text("routing_group", m.Partition.Group)
	}
	switch m.Type {
	case DigestOf:
		bin("sums", m.Sums)
		if len(m.Buckets) > 0 {
			num("to", m.To)
			bin("buckets", m.Buckets)
		}
	case Want:
		num("to", m.To)
		bin("buckets", m.Buckets)
		if len(m.Subs) > 0 {
			bin("subs", m.Subs)
		}
		bin("have", m.Have)
	case Floor:
		text("session_id", m.SessionID)
		num("sequence", m.Sequence)
		num("writer_id", m.WriterID)
		num("ttl_ms", m.TTLMillis)
	case StreamEnd:
		num("to", m.To)
		num("lease", m.End.Lease)
		text("outcome", m.End.Outcome.String())
		text("served", m.End.Served)
		if m.End.ConnectFailed {
			num("connect_failed", 1)
		}
	case Alive:
		num("writer_id", m.WriterID)
		if m.Digested {
			num("digested", 1)
		}
	case Hello:
		if len(m.Buckets) > 0 {
			num("to", m.To)
			bin("buckets", m.Buckets)
		}
	}
	return b
}

func (m *SyncMessage) hasPartition() bool {
	return m.Type == DigestOf || m.Type == Want || m.Type == Floor || m.Type == Hello && len(m.Buckets) > 0
}

// DecodeSync reads a SyncMessage and checks that it has what its type needs. A
// type that is not known is no error: it is for newer replicas. Bytes in m stay
// the payload's. Errors: ErrMalformed, ErrMissingKey.
func DecodeSync(payload []byte) (m SyncMessage, err error) {
	d := decoder{rest: payload}
	var model, group bool
	d.fields(func(key []byte) bool {
		switch string(key) {
		case "type":
			m.Type = SyncType(d.str())
		case "sender_id":
			m.SenderID = d.uint()
		case "sender_seq":
			m.SenderSeq = d.uint()
		case "model_name":
			m.Partition.Model, model = d.str(), true
		case "routing_group":
			m.Partition.Group, group = d.str(), true
		case "sums":
			m.Sums = d.raw()
		case "to":
			m.To = d.uint()
		case "buckets":
			m.Buckets = d.raw()
		case "subs":
			m.Subs = d.raw()
		case "have":
			m.Have = d.raw()
		case "session_id":
			m.SessionID = d.str()
		case "sequence":
			m.Sequence = d.uint()
		case "writer_id":
			m.WriterID = d.uint()
		case "ttl_ms":
			m.TTLMillis = d.uint()
		case "lease":
			m.End.Lease = d.uint()
		case "outcome":
			m.End.Outcome = outcomeOf(d.str())
		case "served":
			m.End.Served = d.str()
		case "digested":
			m.Digested = d.uint() != 0
		case "connect_failed":
			m.End.ConnectFailed = d.uint() != 0
		default:
			return false
		}
		return true
	})
	if d.err != nil {
		return SyncMessage{}, d.err
	}
	m.End.Replica = m.To
	return m, m.check(model && group)
}

// outcomeOf reads an outcome's word. One that is not known, of a newer replica,
// ended somehow.
func outcomeOf(word string) affinity.Outcome {
	for _, o := range []affinity.Outcome{affinity.ClientAborted, affinity.UpstreamFailed, affinity.NeverSent} {
		if o.String() == word {
			return o
		}
	}
	return affinity.Completed
}

func (m *SyncMessage) check(partition bool) error {
	switch {
	case m.Type == "" || m.SenderID == 0 || m.hasPartition() && !partition:
		return ErrMissingKey
	case m.Type == StreamEnd && len(m.End.Served) > maxServed:
		return fmt.Errorf("%w: an address of %d bytes", ErrMalformed, len(m.End.Served))
	case len(m.Buckets) > affinity.Buckets:
		return fmt.Errorf("%w: %d buckets", ErrMalformed, len(m.Buckets))
	case m.Type == DigestOf && len(m.Sums) != digestBytes*max(len(m.Buckets), 1):
		return fmt.Errorf("%w: a digest of %d bytes", ErrMalformed, len(m.Sums))
	case m.Type == Want && (len(m.Have)%8 != 0 || len(m.Subs)%2 != 0):
		return fmt.Errorf("%w: have or sub-buckets of a want", ErrMalformed)
	case m.Type == Floor && m.Sequence == 0:
		return ErrMissingKey
	}
	return nil
}

func (e *BindingEvent) partition() fleet.Partition {
	return fleet.Partition{Model: e.ModelName, Group: e.RoutingGroup}
}

func (e *BindingEvent) target() fleet.Target {
	if e.DPRank == nil {
		return fleet.WorkerOnly(fleet.WorkerID(e.WorkerID))
	}
	return fleet.OnRank(fleet.WorkerID(e.WorkerID), *e.DPRank)
}
