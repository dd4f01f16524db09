package kvstate

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MarshalJSON writes the event; it fails for a kind or tier without a name and for
// text that is not UTF-8.
func (e RouterEvent) MarshalJSON() ([]byte, error) { return e.appendJSON(nil) }

func (e *RouterEvent) appendJSON(b []byte) ([]byte, error) {
	tier, err := enumText(tiers, e.Tier)
	if err != nil {
		return nil, err
	}
	b = appendKeyUint(b, `{"worker_id":`, e.WorkerID)
	b = append(append(append(b, `,"storage_tier":"`...), tier...), '"')
	if e.Domain.Present {
		if b, err = jsontext.AppendQuote(append(b, `,"residency_domain":`...), e.Domain.Name); err != nil {
			return nil, fmt.Errorf("residency_domain: %w", err)
		}
	}
	b = appendKeyUint(b, `,"event":{"event_id":`, e.EventID)
	if b, err = e.appendData(append(b, `,"data":`...)); err != nil {
		return nil, err
	}
	b = appendKeyUint(b, `,"dp_rank":`, uint64(e.DPRank))
	b = append(b, '}')
	if e.StateSource != nil {
		source, err := json.Marshal(e.StateSource)
		if err != nil {
			return nil, fmt.Errorf("state_source: %w", err)
		}
		b = append(append(b, `,"state_source":`...), source...)
	}
	if e.SessionID != nil {
		if b, err = jsontext.AppendQuote(append(b, `,"session_id":`...), *e.SessionID); err != nil {
			return nil, fmt.Errorf("session_id: %w", err)
		}
	}
	return append(b, '}'), nil
}

func appendKeyUint(b []byte, key string, v uint64) []byte {
	return strconv.AppendUint(append(b, key...), v, 10)
}

func (e *RouterEvent) appendData(b []byte) ([]byte, error) {
	switch e.Kind {
	case Stored:
		return append(e.Store.appendJSON(append(b, `{"stored":`...)), '}'), nil
	case Removed:
		b = append(b, `{"removed":{"block_hashes":[`...)
		for i, hash := range e.Removed {
			b = strconv.AppendUint(appendComma(b, i), hash, 10)
		}
		return append(b, "]}}"...), nil
	case Cleared:
		return append(b, `"cleared"`...), nil
	}
	return nil, fmt.Errorf("event %d: no name for %s", e.EventID, e.Kind)
}

func (s *StoreData) appendJSON(b []byte) []byte {
	b = append(b, '{')
	if s.HasParent {
		b = append(appendKeyUint(b, `"parent_hash":`, s.Parent), ',')
	}
	if s.StartPosition != nil {
		b = append(appendKeyUint(b, `"start_position":`, uint64(*s.StartPosition)), ',')
	}
	b = append(b, `"blocks":[`...)
	for i, block := range s.Blocks {
		b = appendKeyUint(appendComma(b, i), `{"block_hash":`, block.External)
		b = appendKeyUint(b, `,"tokens_hash":`, block.Local)
		if i < len(s.MM) && s.MM[i] != nil {
			b = appendMM(append(b, `,"mm_extra_info":{"mm_objects":[`...), s.MM[i])
			b = append(b, "]}"...)
		}
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

func appendMM(b []byte, objects []MMObject) []byte {
	for i, object := range objects {
		b = appendKeyUint(appendComma(b, i), `{"mm_hash":`, object.Hash)
		b = append(b, `,"offsets":[`...)
		for j, span := range object.Offsets {
			b = append(strconv.AppendUint(append(appendComma(b, j), '['), span[0], 10), ',')
			b = append(strconv.AppendUint(b, span[1], 10), ']')
		}
		b = append(b, "]}"...)
	}
	return b
}

func appendComma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

// MarshalJSON writes both fields; no events are an empty array.
func (r EventsReply) MarshalJSON() ([]byte, error) {
	b, err := appendEvents([]byte(`{"events":[`), r.Events)
	if err != nil {
		return nil, err
	}
	return append(appendKeyUint(b, `],"last_event_id":`, r.LastEventID), '}'), nil
}

// MarshalJSON writes all fields; no events are an empty array.
func (r TreeDumpReply) MarshalJSON() ([]byte, error) {
	b, err := appendEvents([]byte(`{"events":[`), r.Events)
	if err != nil {
		return nil, err
	}
	scope, err := json.Marshal(r.ResetScope)
	if err != nil {
		return nil, err
	}
	b = appendKeyUint(b, `],"last_event_id":`, r.LastEventID)
	return append(append(append(b, `,"reset_scope":`...), scope...), '}'), nil
}

func appendEvents(b []byte, events []RouterEvent) (_ []byte, err error) {
	for i := range events {
		if b, err = events[i].appendJSON(appendComma(b, i)); err != nil {
			return nil, err
		}
	}
	return b, nil
}
