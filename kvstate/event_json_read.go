package kvstate

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// eventReader reads events in one pass. A recovery repeats one owner in millions
// of events, so the last one is kept and shared while its text stays the same.
type eventReader struct {
	dec        *jsontext.Decoder
	lastSource []byte
	lastOwner  *CacheOwnerID
}

// UnmarshalJSON requires worker_id and event. A missing residency_domain is kept
// apart from any string; null is no domain and an error.
func (e *RouterEvent) UnmarshalJSON(b []byte) error {
	r := eventReader{dec: jsontext.NewDecoder(bytes.NewBuffer(b))}
	return r.event(e)
}

// UnmarshalJSON requires both fields.
func (r *EventsReply) UnmarshalJSON(b []byte) error {
	reader := eventReader{dec: jsontext.NewDecoder(bytes.NewBuffer(b))}
	var read TreeDumpReply
	if err := reader.reply(&read); err != nil {
		return err
	}
	r.Events, r.LastEventID = read.Events, read.LastEventID
	return nil
}

// UnmarshalJSON requires events and last_event_id. A missing reset_scope is all.
func (r *TreeDumpReply) UnmarshalJSON(b []byte) error {
	reader := eventReader{dec: jsontext.NewDecoder(bytes.NewBuffer(b))}
	return reader.reply(r)
}

func (r *eventReader) reply(into *TreeDumpReply) error {
	var read TreeDumpReply
	var seen fields
	err := readObject(r.dec, func(name []byte) (err error) {
		switch string(name) {
		case "events":
			seen |= 1
			return readArray(r.dec, func() error {
				read.Events = append(read.Events, RouterEvent{})
				return r.event(&read.Events[len(read.Events)-1])
			})
		case "last_event_id":
			seen |= 2
			read.LastEventID, err = r.uint()
			return err
		case "reset_scope":
			return json.UnmarshalDecode(r.dec, &read.ResetScope)
		}
		return r.dec.SkipValue()
	})
	if err == nil {
		err = seen.require("events", "last_event_id")
	}
	*into = read
	return err
}

// fields is which required fields were seen, from the lowest bit on.
type fields uint8

func (f fields) require(names ...string) error {
	for i, name := range names {
		if f>>i&1 == 0 {
			return missingField(name)
		}
	}
	return nil
}

func (r *eventReader) event(e *RouterEvent) error {
	var read RouterEvent
	var seen fields
	err := readObject(r.dec, func(name []byte) (err error) {
		switch string(name) {
		case "worker_id":
			seen |= 1
			read.WorkerID, err = r.uint()
		case "storage_tier":
			err = r.tier(&read)
		case "residency_domain":
			read.Domain.Present = true
			read.Domain.Name, err = r.string()
		case "event":
			seen |= 2
			err = r.body(&read)
		case "state_source":
			read.StateSource, err = r.owner()
		case "session_id":
			err = json.UnmarshalDecode(r.dec, &read.SessionID)
		default:
			err = r.dec.SkipValue()
		}
		return err
	})
	if err == nil {
		err = seen.require("worker_id", "event")
	}
	*e = read
	return err
}

func (r *eventReader) body(e *RouterEvent) error {
	var seen fields
	err := readObject(r.dec, func(name []byte) (err error) {
		switch string(name) {
		case "event_id":
			seen |= 1
			e.EventID, err = r.uint()
		case "data":
			seen |= 2
			err = r.data(e)
		case "dp_rank":
			e.DPRank, err = r.uint32()
		default:
			err = r.dec.SkipValue()
		}
		return err
	})
	if err != nil {
		return err
	}
	return seen.require("event_id", "data")
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
	var seen fields
	err := readObject(r.dec, func(name []byte) error {
		if string(name) != "block_hashes" {
			return r.dec.SkipValue()
		}
		seen |= 1
		return readArray(r.dec, func() error {
			hash, err := r.hash()
			e.Removed = append(e.Removed, hash)
			return err
		})
	})
	if err != nil {
		return err
	}
	return seen.require("block_hashes")
}

func (r *eventReader) store(s *StoreData) error {
	var seen fields
	err := readObject(r.dec, func(name []byte) (err error) {
		switch string(name) {
		case "parent_hash":
			if s.HasParent = r.dec.PeekKind() != 'n'; s.HasParent {
				s.Parent, err = r.hash()
				return err
			}
			return r.dec.SkipValue()
		case "start_position":
			return json.UnmarshalDecode(r.dec, &s.StartPosition)
		case "blocks":
			seen |= 1
			return readArray(r.dec, func() error { return r.block(s) })
		}
		return r.dec.SkipValue()
	})
	if err != nil {
		return err
	}
	return seen.require("blocks")
}

// owner reads a cache owner; null is none.
func (r *eventReader) owner() (*CacheOwnerID, error) {
	raw, err := r.dec.ReadValue()
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
