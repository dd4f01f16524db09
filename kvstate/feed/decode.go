package feed

import (
	"errors"

	"github.com/tinylib/msgp/msgp"
)

// Bounds of one payload, beside its size. An event beyond them is dropped.
const (
	maxEvents     = 1 << 14 // of a batch
	maxHashes     = 1 << 16 // of an event
	maxTokens     = 1 << 20 // of an event
	arenaKept     = 1 << 17 // hashes and tokens whose memory is kept for the next payload
	maxHashString = 64      // bytes
)

var errTooLarge = errors.New("too many elements")

// eventKind is what an event says happened.
type eventKind uint8

const (
	unknown eventKind = iota
	stored
	removed
	cleared
	ignored
)

func kindOf(tag []byte) eventKind {
	switch string(tag) {
	case "BlockStored":
		return stored
	case "BlockRemoved":
		return removed
	case "AllBlocksCleared":
		return cleared
	case "Ignored":
		return ignored
	}
	return unknown
}

// An event is one engine event as it was sent, unchecked. Its memory is the
// decoder's and the payload's: it lasts until the next payload.
type event struct {
	kind           eventKind
	hasParent      bool
	hasGroup       bool
	pairs          bool // token_ids were pairs: an Eagle engine; tokens has one more than there were pairs
	unnamedAdapter bool // lora_id given
	parent         uint64
	group          uint64
	blockSize      uint64
	hashes         []uint64
	tokens         []uint32
	medium         []byte // empty: not given
	adapter        []byte
	salt           []byte
	attention      []byte
	locality       []byte
	owner          []byte
	extra          []byte // extra_keys, still encoded; nil: none
	images         []byte // multimodal infos, still encoded; nil: none
}

// A batch is one decoded payload.
type batch struct {
	events  []event
	rank    uint64
	hasRank bool
	dropped [reasons]uint32 // events that could not be decoded
	blind   bool            // one of them may have been a removal or a clear
}

// decoder decodes payloads into memory that it uses again. The zero value is
// ready. Not for concurrent use.
type decoder struct {
	batch  batch
	hashes []uint64
	tokens []uint32
}

// decode reads a batch, as an array or as a map:
//
//	[ts, [event...], rank?, ...]
//	{"ts": ts, "events": [event...], "data_parallel_rank": rank?, ...}
//
// An event that cannot be read is counted and left out. An error means that
// the payload is no batch. The result lasts until the next call.
func (d *decoder) decode(payload []byte) (*batch, error) {
	d.reset()
	var err error
	switch msgp.NextType(payload) {
	case msgp.ArrayType:
		err = d.arrayBatch(payload)
	case msgp.MapType:
		err = d.mapBatch(payload)
	default:
		err = errType
	}
	if err != nil {
		return nil, err
	}
	return &d.batch, nil
}

func (d *decoder) reset() {
	if cap(d.hashes) > arenaKept {
		d.hashes = nil
	}
	if cap(d.tokens) > arenaKept {
		d.tokens = nil
	}
	d.hashes, d.tokens = d.hashes[:0], d.tokens[:0]
	clear(d.batch.events)
	d.batch = batch{events: d.batch.events[:0]}
}

func (d *decoder) arrayBatch(b []byte) error {
	n, b, err := arrayHeader(b)
	if err != nil {
		return err
	}
	if n < 2 {
		return errShort
	}
	if b, err = skip(b); err != nil { // the time
		return err
	}
	if b, err = d.events(b); err != nil {
		return err
	}
	if n > 2 {
		if b, err = d.rank(b); err != nil {
			return err
		}
	}
	for range max(n-3, 0) {
		if b, err = skip(b); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) mapBatch(b []byte) error {
	n, b, err := mapHeader(b)
	if err != nil {
		return err
	}
	seen := false
	for range n {
		var key []byte
		if key, b, err = readKey(b); err != nil {
			return err
		}
		switch string(key) {
		case "events":
			if seen {
				return errType // which of them would be the truth?
			}
			seen = true
			b, err = d.events(b)
		case "data_parallel_rank", "dp_rank":
			b, err = d.rank(b)
		default:
			b, err = skip(b)
		}
		if err != nil {
			return err
		}
	}
	if !seen {
		return errShort
	}
	return nil
}

func (d *decoder) rank(b []byte) (rest []byte, err error) {
	if msgp.IsNil(b) {
		return b[1:], nil
	}
	d.batch.rank, rest, err = readUint(b)
	d.batch.hasRank = true
	return rest, err
}

func (d *decoder) events(b []byte) (rest []byte, err error) {
	if msgp.IsNil(b) {
		return b[1:], nil
	}
	n, b, err := arrayHeader(b)
	if err != nil {
		return nil, err
	}
	for range n {
		if b, err = d.event(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// event reads one event, or counts why it was left out and finds its end. An
// error means that it has none.
func (d *decoder) event(b []byte) (rest []byte, err error) {
	hashes, tokens := len(d.hashes), len(d.tokens)
	if len(d.batch.events) >= maxEvents {
		return d.leaveOut(b, TooLarge, unknown)
	}
	d.batch.events = append(d.batch.events, event{})
	e := &d.batch.events[len(d.batch.events)-1]
	switch msgp.NextType(b) {
	case msgp.ArrayType:
		rest, err = d.arrayEvent(e, b)
	case msgp.MapType:
		rest, err = d.mapEvent(e, b)
	default:
		err = errType
	}
	if err == nil && e.kind != unknown {
		return rest, nil
	}
	kind, why := e.kind, Undecodable
	switch {
	case err == nil:
		why = UnknownType
	case errors.Is(err, errTooLarge):
		why = TooLarge
	}
	d.hashes, d.tokens = d.hashes[:hashes], d.tokens[:tokens]
	d.batch.events = d.batch.events[:len(d.batch.events)-1]
	if why == UnknownType {
		d.batch.dropped[why]++
		return rest, nil
	}
	return d.leaveOut(b, why, kind)
}

func (d *decoder) leaveOut(b []byte, why Reason, kind eventKind) (rest []byte, err error) {
	d.batch.dropped[why]++
	if kind != stored && kind != ignored {
		d.batch.blind = true
	}
	return skip(b)
}
