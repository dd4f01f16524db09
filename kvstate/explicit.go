package kvstate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// Limits of an explicit map, in entries and bytes.
const (
	MaxExplicitEntries     = 32
	MaxExplicitKeyLength   = 128
	MaxExplicitValueLength = 1024
)

// Why an explicit map is refused.
var (
	ErrExplicitEmpty        = errors.New("explicit map: no entries")
	ErrExplicitTooMany      = fmt.Errorf("explicit map: more than %d entries", MaxExplicitEntries)
	ErrExplicitEmptyKey     = errors.New("explicit map: empty key")
	ErrExplicitEmptyValue   = errors.New("explicit map: empty value")
	ErrExplicitKeyTooLong   = fmt.Errorf("explicit map: key longer than %d bytes", MaxExplicitKeyLength)
	ErrExplicitValueTooLong = fmt.Errorf("explicit map: value longer than %d bytes", MaxExplicitValueLength)
	ErrExplicitNotUTF8      = errors.New("explicit map: not valid UTF-8")
)

// ExplicitMap is what an operator says an identity depends on: 1 to 32 entries.
// The order in which they were given does not matter. It is immutable; the zero
// value holds nothing and comes from no constructor.
type ExplicitMap struct {
	keys, values []string // by key
}

// NewExplicitMap checks the entries. The error is one of the ErrExplicit values.
func NewExplicitMap(entries map[string]string) (ExplicitMap, error) {
	switch {
	case len(entries) == 0:
		return ExplicitMap{}, ErrExplicitEmpty
	case len(entries) > MaxExplicitEntries:
		return ExplicitMap{}, ErrExplicitTooMany
	}
	m := ExplicitMap{keys: slices.Sorted(maps.Keys(entries))}
	for _, key := range m.keys {
		if err := checkExplicit(key, entries[key]); err != nil {
			return ExplicitMap{}, err
		}
		m.values = append(m.values, entries[key])
	}
	return m, nil
}

func checkExplicit(key, value string) error {
	switch {
	case key == "":
		return ErrExplicitEmptyKey
	case value == "":
		return ErrExplicitEmptyValue
	case len(key) > MaxExplicitKeyLength:
		return ErrExplicitKeyTooLong
	case len(value) > MaxExplicitValueLength:
		return ErrExplicitValueTooLong
	case !utf8.ValidString(key), !utf8.ValidString(value):
		return ErrExplicitNotUTF8
	}
	return nil
}

// UnmarshalJSON reads an object of strings; a duplicate key is an error.
func (m *ExplicitMap) UnmarshalJSON(b []byte) error {
	var entries map[string]string
	if err := json.Unmarshal(b, &entries); err != nil {
		return err
	}
	read, err := NewExplicitMap(entries)
	if err != nil {
		return err
	}
	*m = read
	return nil
}

// MarshalJSON writes the object in key order.
func (m ExplicitMap) MarshalJSON() ([]byte, error) {
	entries := make(map[string]string, len(m.keys))
	for i, key := range m.keys {
		entries[key] = m.values[i]
	}
	return json.Marshal(entries, json.Deterministic(true))
}
