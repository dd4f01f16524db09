package kvstate

import (
	"bytes"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxAnswerEvents and MaxAnswerHashes bound what one answer, or one event, may
	// hold in JSON: a peer sends them in a few bytes each. A full state has an event a
	// block at most, and an index that many blocks by default; the hashes are those of
	// blocks stored and removed, and of multimodal objects and their offsets.
	MaxAnswerEvents = 2 << 20
	MaxAnswerHashes = 8 << 20

	maxPartBytes = 64 << 10 // of what is neither: receipts, owners, statuses, messages
)

// eventReader reads events in one pass. A recovery repeats one owner in millions
// of events, so the last one is kept and shared while its text stays the same.
type eventReader struct {
	dec            *jsontext.Decoder
	events, hashes room
	lastSource     []byte
	lastOwner      *CacheOwnerID
}

// room is how much of something may be read, over all.
type room struct {
	what       string
	most, used int
}

// take makes use of room for one more, if there is any.
func (r *room) take() error {
	if r.used >= r.most {
		return fmt.Errorf("more than %d %s in one answer", r.most, r.what)
	}
	r.used++
	return nil
}

// newEventReader leaves it to object to refuse names that come twice: the decoder
// would keep all names of an object, of which a peer can send any number.
func newEventReader(from io.Reader) eventReader {
	return eventReader{
		dec:    jsontext.NewDecoder(from, jsontext.AllowDuplicateNames(true)),
		events: room{what: "events", most: MaxAnswerEvents}, hashes: room{what: "hashes", most: MaxAnswerHashes},
	}
}

// UnmarshalJSON requires worker_id and event. A missing residency_domain is kept
// apart from any string; null is no domain and an error.
func (e *RouterEvent) UnmarshalJSON(b []byte) error {
	r := newEventReader(bytes.NewBuffer(b))
	return r.event(e)
}

// UnmarshalJSON requires both fields.
func (r *EventsReply) UnmarshalJSON(b []byte) error {
	reader := newEventReader(bytes.NewBuffer(b))
	return reader.eventsReply(r)
}

// UnmarshalJSON requires events and last_event_id. A missing reset_scope is all.
func (r *TreeDumpReply) UnmarshalJSON(b []byte) error {
	reader := newEventReader(bytes.NewBuffer(b))
	return reader.reply(r)
}

func (r *eventReader) eventsReply(into *EventsReply) error {
	var read TreeDumpReply
	err := r.reply(&read)
	into.Events, into.LastEventID = read.Events, read.LastEventID
	return err
}

func (r *eventReader) reply(into *TreeDumpReply) error {
	var read TreeDumpReply
	err := r.object([]string{"events", "last_event_id", "reset_scope"}, 2, func(name string) (err error) {
		switch name {
		case "events":
			return readArray(r.dec, func() error {
				if err := r.events.take(); err != nil {
					return err
				}
				read.Events = append(read.Events, RouterEvent{})
				return r.event(&read.Events[len(read.Events)-1])
			})
		case "last_event_id":
			read.LastEventID, err = r.uint()
		case "reset_scope":
			err = json.UnmarshalDecode(r.dec, &read.ResetScope)
		}
		return err
	})
	*into = read
	return err
}

// object reads an object. field is called for each of names, and must read the
// value; each may come once, and the first required ones must come. Other names are
// ignored.
func (r *eventReader) object(names []string, required int, field func(name string) error) error {
	var seen uint8 // a bit for each of names
	err := readObject(r.dec, func(raw []byte) error {
		for i, name := range names {
			if string(raw) != name {
				continue
			}
			if seen>>i&1 == 1 {
				return fmt.Errorf("%s: it is there twice", r.dec.StackPointer())
			}
			seen |= 1 << i
			return field(name)
		}
		return r.dec.SkipValue()
	})
	for i := 0; i < required && err == nil; i++ {
		if seen>>i&1 == 0 {
			err = missingField(names[i])
		}
	}
	return err
}

func (r *eventReader) event(e *RouterEvent) error {
	var read RouterEvent
	names := []string{"worker_id", "event", "storage_tier", "residency_domain", "state_source", "session_id"}
	err := r.object(names, 2, func(name string) (err error) {
		switch name {
		case "worker_id":
			read.WorkerID, err = r.uint()
		case "storage_tier":
			err = r.tier(&read)
		case "residency_domain":
			read.Domain.Present = true
			read.Domain.Name, err = r.string()
		case "event":
			err = r.body(&read)
		case "state_source":
			read.StateSource, err = r.owner()
		case "session_id":
			err = json.UnmarshalDecode(r.dec, &read.SessionID)
		}
		return err
	})
	*e = read
	return err
}

func (r *eventReader) body(e *RouterEvent) error {
	return r.object([]string{"event_id", "data", "dp_rank"}, 2, func(name string) (err error) {
		switch name {
		case "event_id":
			e.EventID, err = r.uint()
		case "data":
			err = r.data(e)
		case "dp_rank":
			e.DPRank, err = r.uint32()
		}
		return err
	})
}

func (r *eventReader) data(e *RouterEvent) error {
	if r.dec.PeekKind() == '"' {
		name, err := r.string()
		if err == nil && name != Cleared.String() {
			err = fmt.Errorf("event data: unknown or without a body: %q", clip(string(name)))
		}
		e.Kind = Cleared
		return err
	}
	err := readObject(r.dec, func(name []byte) error {
		if e.Kind != 0 {
			return fmt.Errorf("event data: %q beside %s", clip(string(name)), e.Kind)
		}
		if err := enumParse(eventKinds, name, &e.Kind); err != nil {
			return err
		}
		switch e.Kind {
		case Stored:
			return r.store(&e.Store)
		case Removed:
			return r.remove(e)
		}
		return fmt.Errorf("event data: %s takes no body", e.Kind)
	})
	if err == nil && e.Kind == 0 {
		err = fmt.Errorf("event data: empty object")
	}
	return err
}

func (r *eventReader) remove(e *RouterEvent) error {
	return r.object([]string{"block_hashes"}, 1, func(string) error {
		return readArray(r.dec, func() error {
			if err := r.hashes.take(); err != nil {
				return err
			}
			hash, err := r.hash()
			e.Removed = append(e.Removed, hash)
			return err
		})
	})
}

func (r *eventReader) store(s *StoreData) error {
	return r.object([]string{"blocks", "parent_hash", "start_position"}, 1, func(name string) (err error) {
		switch name {
		case "parent_hash":
			if s.HasParent = r.dec.PeekKind() != 'n'; s.HasParent {
				s.Parent, err = r.hash()
				return err
			}
			return r.dec.SkipValue()
		case "start_position":
			return json.UnmarshalDecode(r.dec, &s.StartPosition)
		}
		return readArray(r.dec, func() error { return r.block(s) })
	})
}

// owner reads a cache owner; null is none.
func (r *eventReader) owner() (*CacheOwnerID, error) {
	raw, err := r.part()
	if err != nil || raw.Kind() == 'n' {
		return nil, err
	}
	if r.lastOwner != nil && bytes.Equal(raw, r.lastSource) {
		return r.lastOwner, nil
	}
	owner := new(CacheOwnerID)
	if err := json.Unmarshal(raw, owner); err != nil {
		return nil, fmt.Errorf("state_source: %w", err)
	}
	r.lastOwner, r.lastSource = owner, append(r.lastSource[:0], raw...)
	return owner, nil
}

// part reads a value that is small, whatever is in it. It is the decoder's and is
// gone once it reads on.
func (r *eventReader) part() (jsontext.Value, error) {
	raw, err := r.dec.ReadValue()
	if err == nil && len(raw) > maxPartBytes {
		err = fmt.Errorf("%s: %d bytes, %d are allowed", r.dec.StackPointer(), len(raw), maxPartBytes)
	}
	return raw, err
}
