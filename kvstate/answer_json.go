package kvstate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
)

// DecodeAnswer reads the answer to a query, which ends with from. It does not keep
// the text, so that a full state takes the memory of its events alone: they are at
// most [MaxAnswerEvents] with [MaxAnswerHashes]. How long the text is and how long
// it may take is for the caller to bound: an error of from ends it.
func DecodeAnswer(from io.Reader) (QueryResponse, error) {
	r := newEventReader(from)
	return r.whole()
}

// whole reads an answer and that nothing follows.
func (r *eventReader) whole() (QueryResponse, error) {
	var read QueryResponse
	err := r.answer(&read, false)
	if err == nil {
		if _, after := r.dec.ReadToken(); after == nil {
			err = errors.New("something after the answer")
		} else if after != io.EOF {
			err = after
		}
	}
	if err != nil {
		return QueryResponse{}, fmt.Errorf("query response: %w", err)
	}
	return read, nil
}

// UnmarshalJSON reads an object with exactly one known key, as [DecodeAnswer] does.
func (r *QueryResponse) UnmarshalJSON(b []byte) error {
	read, err := DecodeAnswer(bytes.NewBuffer(b))
	*r = read
	return err
}

// UnmarshalJSON requires both fields and refuses a recovery inside a recovery.
func (r *StateAgentRecoveryReply) UnmarshalJSON(b []byte) error {
	reader := newEventReader(bytes.NewBuffer(b))
	return reader.recovery(r)
}

// answer reads an answer's only variant; null is none. inside says that it is in a
// recovery, where there can be no other: a peer must not choose how deep we recurse.
func (r *eventReader) answer(into *QueryResponse, inside bool) error {
	err := readObject(r.dec, func(raw []byte) error {
		name := string(raw)
		switch {
		case !slices.Contains(variantNames[:], name):
			return fmt.Errorf("unknown variant %q", clip(name))
		case r.dec.PeekKind() == 'n':
			return r.dec.SkipValue()
		case name == "StateAgentRecovery" && inside:
			return errors.New("StateAgentRecovery inside StateAgentRecovery")
		case into.variants() > 0:
			return errors.New("2 variants set, want 1")
		}
		return r.variant(name, into)
	})
	if err == nil && into.variants() == 0 {
		err = errors.New("0 variants set, want 1")
	}
	return err
}

var variantNames = [...]string{"Status", "StateAgentRecovery", "Events", "TreeDump", "TreeDumpFailed", "TooNew", "InvalidRange", "Error"}

func (r *eventReader) variant(name string, into *QueryResponse) error {
	switch name {
	case "Status":
		return readPart(r, &into.Status)
	case "StateAgentRecovery":
		into.StateAgentRecovery = new(StateAgentRecoveryReply)
		return r.recovery(into.StateAgentRecovery)
	case "Events":
		into.Events = new(EventsReply)
		return r.eventsReply(into.Events)
	case "TreeDump":
		into.TreeDump = new(TreeDumpReply)
		return r.reply(into.TreeDump)
	case "TreeDumpFailed":
		return readPart(r, &into.TreeDumpFailed)
	case "TooNew":
		return readPart(r, &into.TooNew)
	case "InvalidRange":
		return readPart(r, &into.InvalidRange)
	default:
		return readPart(r, &into.Error)
	}
}

func (r *eventReader) recovery(into *StateAgentRecoveryReply) error {
	var receipt *RecoveryReceipt
	err := r.object([]string{"response", "receipt"}, 2, func(name string) error {
		if name == "receipt" {
			return readPart(r, &receipt)
		}
		return r.answer(&into.Response, true)
	})
	if err == nil && receipt == nil {
		err = missingField("receipt")
	}
	if err == nil {
		into.Receipt = *receipt
	}
	return err
}

// readPart reads a small value; null is nil.
func readPart[T any](r *eventReader, into **T) error {
	raw, err := r.part()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}
