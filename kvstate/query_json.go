package kvstate

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// String returns the wire name.
func (o QueryOp) String() string { return enumString(queryOps, o) }

// queryExpectation is the body of the kinds that name an agent.
type queryExpectation struct {
	Expected                     AgentIdentity `json:"expected"`
	ExpectedAttachmentGeneration *uint64       `json:"expected_attachment_generation,omitzero"`
}

// UnmarshalJSON requires expected.
func (e *queryExpectation) UnmarshalJSON(b []byte) error {
	type plain queryExpectation
	return unmarshalObject(b, (*plain)(e), "expected")
}

// MarshalJSON writes "recovery", or an object with one key.
func (k QueryKind) MarshalJSON() ([]byte, error) {
	name, err := enumText(queryOps, k.Op)
	if err != nil {
		return nil, err
	}
	if k.Op == QueryRecovery {
		return jsontext.AppendQuote(nil, name)
	}
	body, err := json.Marshal(queryExpectation{k.Expected, k.ExpectedAttachmentGeneration})
	if err != nil {
		return nil, err
	}
	b := append(append([]byte(`{"`), name...), `":`...)
	return append(append(b, body...), '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes; an unknown kind is an error.
func (k *QueryKind) UnmarshalJSON(b []byte) error {
	if jsontext.Value(b).Kind() == '"' {
		var name string
		if err := json.Unmarshal(b, &name); err != nil {
			return err
		}
		if name != QueryRecovery.String() {
			return fmt.Errorf("query kind: unknown or without a body: %q", clip(name))
		}
		*k = QueryKind{}
		return nil
	}
	var read QueryKind
	var body queryExpectation
	name, err := readVariant(b, &body, func(name []byte) error { return enumParse(queryOps, name, &read.Op) })
	if err != nil {
		return fmt.Errorf("query kind %q: %w", clip(name), err)
	}
	if read.Op == QueryRecovery {
		return fmt.Errorf("query kind: %q takes no body", name)
	}
	read.Expected, read.ExpectedAttachmentGeneration = body.Expected, body.ExpectedAttachmentGeneration
	*k = read
	return nil
}

// readVariant reads an object with one key that known accepts, and its value, which
// is not null, into body.
func readVariant(b []byte, body any, known func(name []byte) error) (variant string, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(b))
	variants := 0
	err = readObject(dec, func(name []byte) error {
		if variants++; variants > 1 {
			return fmt.Errorf("another key %q", clip(string(name)))
		}
		variant = string(name)
		if err := known(name); err != nil {
			return err
		}
		if dec.PeekKind() == 'n' {
			return unexpected(dec, "a value")
		}
		return json.UnmarshalDecode(dec, body)
	})
	if err == nil && variants == 0 {
		err = errors.New("empty object")
	}
	return variant, err
}

// UnmarshalJSON requires worker_id and dp_rank. A missing kind is recovery.
func (r *QueryRequest) UnmarshalJSON(b []byte) error {
	type plain QueryRequest
	return unmarshalObject(b, (*plain)(r), "worker_id", "dp_rank")
}

// MarshalJSON writes the one field that is set; none or several are an error.
func (r QueryResponse) MarshalJSON() ([]byte, error) {
	if n := r.variants(); n != 1 {
		return nil, fmt.Errorf("query response: %d variants set, want 1", n)
	}
	type plain QueryResponse
	return json.Marshal(plain(r))
}

func (r QueryResponse) variants() (n int) {
	for _, set := range [...]bool{r.Status != nil, r.StateAgentRecovery != nil, r.Events != nil, r.TreeDump != nil,
		r.TreeDumpFailed != nil, r.TooNew != nil, r.InvalidRange != nil, r.Error != nil} {
		if set {
			n++
		}
	}
	return n
}

// UnmarshalJSON requires both fields.
func (r *TreeDumpFailedReply) UnmarshalJSON(b []byte) error {
	type plain TreeDumpFailedReply
	return unmarshalObject(b, (*plain)(r), "last_event_id", "message")
}

// UnmarshalJSON requires newest_available.
func (r *TooNewReply) UnmarshalJSON(b []byte) error {
	type plain TooNewReply
	return unmarshalObject(b, (*plain)(r), "newest_available")
}

// UnmarshalJSON requires both fields.
func (r *InvalidRangeReply) UnmarshalJSON(b []byte) error {
	type plain InvalidRangeReply
	return unmarshalObject(b, (*plain)(r), "start_id", "end_id")
}

// MarshalJSON writes "all" or {"domain":name}.
func (s ResetScope) MarshalJSON() ([]byte, error) {
	if !s.Limited {
		return []byte(`"all"`), nil
	}
	return json.Marshal(map[string]Domain{"domain": s.Domain})
}

// UnmarshalJSON reads what MarshalJSON writes; anything else is an error.
func (s *ResetScope) UnmarshalJSON(b []byte) error {
	if jsontext.Value(b).Kind() == '"' {
		if string(b) != `"all"` {
			return fmt.Errorf("reset scope: unknown value %s, want \"all\" or a domain", clip(string(b)))
		}
		*s = ResetScope{}
		return nil
	}
	read := ResetScope{Limited: true}
	_, err := readVariant(b, &read.Domain, func(name []byte) error {
		if string(name) != "domain" {
			return fmt.Errorf("reset scope: unknown key %q", clip(string(name)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	*s = read
	return nil
}
