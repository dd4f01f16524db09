package kvstate

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MarshalJSON writes an object with one key; a transport without a known kind is
// an error.
func (t Transport) MarshalJSON() ([]byte, error) {
	name, err := enumText(transportKinds, t.Kind)
	if err != nil {
		return nil, err
	}
	b := append(append([]byte(`{"`), name...), `":`...)
	if b, err = jsontext.AppendQuote(b, t.Address); err != nil {
		return nil, fmt.Errorf("transport %s: %w", t.Kind, err)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads an object with exactly one known key.
func (t *Transport) UnmarshalJSON(b []byte) error {
	var read Transport
	_, err := readVariant(b, &read.Address, func(name []byte) error { return enumParse(transportKinds, name, &read.Kind) })
	if err != nil {
		return err
	}
	*t = read
	return nil
}

// UnmarshalJSON requires all fields but device_type and request_plane_codec.
func (i *Instance) UnmarshalJSON(b []byte) error {
	type plain Instance
	return unmarshalObject(b, (*plain)(i), "component", "endpoint", "namespace", "instance_id", "transport")
}

// UnmarshalJSON reads an object with all fields, or a string as ParseEndpointID.
func (id *EndpointID) UnmarshalJSON(b []byte) error {
	if jsontext.Value(b).Kind() == '"' {
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		read, err := ParseEndpointID(s)
		if err == nil {
			*id = read
		}
		return err
	}
	type plain EndpointID
	return unmarshalObject(b, (*plain)(id), "namespace", "component", "name")
}

// ParseEndpointID reads "ns.component.name" or "ns/component/name": three parts
// that are not empty.
func ParseEndpointID(s string) (EndpointID, error) {
	separator := "."
	if strings.Contains(s, "/") {
		separator = "/"
	}
	parts := strings.Split(s, separator)
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return EndpointID{}, fmt.Errorf("endpoint %q: want namespace%[2]scomponent%[2]sname", clip(s), separator)
	}
	return EndpointID{parts[0], parts[1], parts[2]}, nil
}
