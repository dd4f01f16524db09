package kvstate

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// unmarshalObject reads an object into a struct without UnmarshalJSON of its own.
// Names are exact and may come once, unknown ones are ignored, and a required one
// that is missing or null is an error that names it.
func unmarshalObject[T any](data []byte, into *T, required ...string) error {
	if err := requireFields(data, required); err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

func requireFields(data []byte, required []string) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	missing := slices.Clone(required)
	err := readObject(dec, func(name []byte) error {
		if dec.PeekKind() != 'n' {
			missing = slices.DeleteFunc(missing, func(s string) bool { return s == string(name) })
		}
		return dec.SkipValue()
	})
	if err == nil && len(missing) > 0 {
		err = missingField(missing[0])
	}
	return err
}

// missingField is the error for a required field by that name. To make one costs 16
// bytes: a hostile payload can have one for each of its own.
type missingField string

func (f missingField) Error() string { return "missing field " + strconv.Quote(string(f)) }

// readObject calls field for each name of the object that comes next in dec; field
// must read the value. The name is the decoder's and is gone once it reads on.
func readObject(dec *jsontext.Decoder, field func(name []byte) error) error {
	if dec.PeekKind() != '{' {
		return unexpected(dec, "an object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		name, err := readName(dec)
		if err != nil {
			return err
		}
		if err := field(name); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// readName is ReadToken and Token.String without the allocation.
func readName(dec *jsontext.Decoder) ([]byte, error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		return jsontext.AppendUnquote(nil, raw)
	}
	return raw[1 : len(raw)-1], nil
}

// readArray calls element before each element of the array that comes next in dec;
// element must read it.
func readArray(dec *jsontext.Decoder, element func() error) error {
	if dec.PeekKind() != '[' {
		return unexpected(dec, "an array")
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// unexpected is the error for a value of the wrong kind, or for none at all.
func unexpected(dec *jsontext.Decoder, want string) error {
	kind := dec.PeekKind()
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	return fmt.Errorf("%s: found %v, want %s", dec.StackPointer(), kind, want)
}
