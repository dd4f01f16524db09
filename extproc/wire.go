package extproc

import (
	"slices"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"
)

// A pick's answer is written straight in its encoded form: as Go values it would
// be three maps and some twenty small messages, and encoding maps goes through
// reflection. The encoded fields are put into messages that do not set them: for
// this process they are unknown fields, which it passes on as they are.

// Numbers of the fields that are written here.
const (
	fieldMutation    protowire.Number = 2 // CommonResponse.header_mutation
	fieldSetHeaders  protowire.Number = 1 // HeaderMutation.set_headers
	fieldRemove      protowire.Number = 2 // HeaderMutation.remove_headers
	fieldHeader      protowire.Number = 1 // HeaderValueOption.header
	fieldHeaderKey   protowire.Number = 1 // HeaderValue.key
	fieldHeaderRaw   protowire.Number = 3 // HeaderValue.raw_value
	fieldFields      protowire.Number = 1 // Struct.fields, a map
	fieldEntryKey    protowire.Number = 1 // of every map
	fieldEntryValue  protowire.Number = 2
	fieldStringValue protowire.Number = 3 // Value.string_value
	fieldStructValue protowire.Number = 5 // Value.struct_value
)

// wire is a message, or a part of one, in its encoded form.
type wire []byte

// text appends a string or bytes field.
func (w wire) text(field protowire.Number, value string) wire {
	return protowire.AppendString(protowire.AppendTag(w, field, protowire.BytesType), value)
}

// message appends a field that is a message; content appends what is in it.
func (w wire) message(field protowire.Number, content func(wire) wire) wire {
	w = protowire.AppendTag(w, field, protowire.BytesType)
	start := len(w)
	w = content(w)
	var length [10]byte
	return slices.Insert(w, start, protowire.AppendVarint(length[:0], uint64(len(w)-start))...)
}

// set appends to a HeaderMutation that a header is overwritten. Only raw_value,
// as the function set does.
func (w wire) set(name, value string) wire {
	return w.message(fieldSetHeaders, func(w wire) wire {
		return w.message(fieldHeader, func(w wire) wire {
			return w.text(fieldHeaderKey, name).text(fieldHeaderRaw, value)
		})
	})
}

// remove appends to a HeaderMutation that a header is removed.
func (w wire) remove(name string) wire { return w.text(fieldRemove, name) }

// entry appends a field to a Struct; value appends to its Value.
func (w wire) entry(key string, value func(wire) wire) wire {
	return w.message(fieldFields, func(w wire) wire {
		return w.text(fieldEntryKey, key).message(fieldEntryValue, value)
	})
}

// stringEntry appends a string to a Struct.
func (w wire) stringEntry(key, value string) wire {
	return w.entry(key, func(w wire) wire { return w.text(fieldStringValue, value) })
}

// structEntry appends a Struct to a Struct; fields appends what is in it.
func (w wire) structEntry(key string, fields func(wire) wire) wire {
	return w.entry(key, func(w wire) wire { return w.message(fieldStructValue, fields) })
}

// asCommon returns the CommonResponse whose fields w is. It keeps w.
func (w wire) asCommon() *extprocv3.CommonResponse {
	c := &extprocv3.CommonResponse{}
	c.ProtoReflect().SetUnknown([]byte(w))
	return c
}

// asMetadata returns the Struct whose fields w is. It keeps w.
func (w wire) asMetadata() metadata {
	m := &structpb.Struct{}
	m.ProtoReflect().SetUnknown([]byte(w))
	return m
}
