package feed

import (
	"errors"

	"github.com/tinylib/msgp/msgp"
)

// fieldID names a field of an event whatever its form.
type fieldID uint8

const (
	fSkip fieldID = iota
	fHashes
	fParent
	fTokens
	fBlockSize
	fAdapterID
	fMedium
	fAdapter
	fExtra
	fGroup
	fAttention
	fLocality
	fOwner
	fSalt
	fImages
)

// The fields of an event as an array, after its type.
var (
	storedFields = [...]fieldID{fHashes, fParent, fTokens, fBlockSize, fAdapterID, fMedium, fAdapter, fExtra,
		fGroup, fAttention, fSkip, fLocality, fOwner}
	removedFields = [...]fieldID{fHashes, fMedium, fGroup, fAttention, fSkip, fLocality, fOwner}
	clearedFields = [...]fieldID{fOwner}
)

func fieldNamed(name []byte) fieldID {
	switch string(name) {
	case "block_hashes":
		return fHashes
	case "parent_block_hash":
		return fParent
	case "token_ids":
		return fTokens
	case "block_size":
		return fBlockSize
	case "lora_id":
		return fAdapterID
	case "medium":
		return fMedium
	case "lora_name":
		return fAdapter
	case "extra_keys":
		return fExtra
	case "group_idx":
		return fGroup
	case "kv_cache_spec_kind":
		return fAttention
	case "locality":
		return fLocality
	case "ownership", "source_kind": // the latter in an earlier version
		return fOwner
	case "cache_salt":
		return fSalt
	case "block_mm_infos":
		return fImages
	}
	return fSkip
}

// arrayEvent reads [type, field...]. Missing fields at the end are absent ones,
// further elements are ignored.
func (d *decoder) arrayEvent(e *event, b []byte) (rest []byte, err error) {
	n, b, err := arrayHeader(b)
	if err != nil {
		return b, err
	}
	if n == 0 {
		return b, errShort
	}
	tag, b, err := readKey(b)
	if err != nil {
		return b, err
	}
	var fields []fieldID
	switch e.kind = kindOf(tag); e.kind {
	case stored:
		fields = storedFields[:]
	case removed:
		fields = removedFields[:]
	case cleared:
		fields = clearedFields[:]
	}
	for range n - 1 {
		id := fSkip
		if len(fields) > 0 {
			id, fields = tailField(b, fields)
		}
		if b, err = d.field(e, id, b); err != nil {
			return b, err
		}
	}
	return b, nil
}

// tailField returns which field the value at b is and the fields after it. In
// an older order of the tail the multimodal infos, or nil, come before the
// group, so that what is at a place there tells which order it is.
func tailField(b []byte, fields []fieldID) (fieldID, []fieldID) {
	id := fields[0]
	switch t := msgp.NextType(b); {
	case id == fGroup && (t == msgp.ArrayType || t == msgp.MapType):
		return fImages, fields
	case id == fAttention && (t == msgp.IntType || t == msgp.UintType):
		return fGroup, fields
	}
	return id, fields[1:]
}

// mapEvent reads {"type": type, field...} with the keys in any order.
func (d *decoder) mapEvent(e *event, b []byte) (rest []byte, err error) {
	n, b, err := mapHeader(b)
	if err != nil {
		return b, err
	}
	if e.kind, err = findType(n, b); err != nil {
		return b, err
	}
	for range n {
		var key []byte
		if key, b, err = readKey(b); err != nil {
			return b, err
		}
		id := fSkip
		if e.kind != unknown && e.kind != ignored {
			id = fieldNamed(key)
		}
		if b, err = d.field(e, id, b); err != nil {
			return b, err
		}
	}
	return b, nil
}

// findType reads the type of a map event; it comes first, as a rule.
func findType(n int, b []byte) (kind eventKind, err error) {
	for range n {
		var key []byte
		if key, b, err = readKey(b); err != nil {
			return unknown, err
		}
		if string(key) == "type" {
			tag, _, err := readKey(b)
			return kindOf(tag), err
		}
		if b, err = skip(b); err != nil {
			return unknown, err
		}
	}
	return unknown, errors.New("event without a type")
}

// field reads one field; nil is an absent one.
func (d *decoder) field(e *event, id fieldID, b []byte) (rest []byte, err error) {
	if len(b) > 0 && b[0] == nilByte {
		return b[1:], nil
	}
	switch id {
	case fHashes:
		e.hashes, rest, err = d.readHashes(b)
	case fParent:
		e.parent, rest, err = readHash(b)
		e.hasParent = true
	case fTokens:
		e.tokens, e.pairs, rest, err = d.readTokens(b)
	case fBlockSize:
		e.blockSize, rest, err = readUint(b)
	case fAdapterID:
		e.unnamedAdapter, rest, err = readAdapterID(b)
	case fMedium:
		e.medium, rest, err = readText(b)
	case fAdapter:
		rest, err = readAdapter(e, b)
	case fExtra:
		e.extra, rest, err = raw(b)
	case fGroup:
		e.group, rest, err = readUint(b)
		e.hasGroup = true
	case fAttention:
		e.attention, rest, err = readText(b)
	case fLocality:
		e.locality, rest, err = readText(b)
	case fOwner:
		e.owner, rest, err = readText(b)
	case fSalt:
		e.salt, rest, err = readText(b)
	case fImages:
		e.images, rest, err = raw(b)
	default:
		rest, err = skip(b)
	}
	return rest, err
}

// raw returns the next value as it is encoded.
func raw(b []byte) (v, rest []byte, err error) {
	if rest, err = skip(b); err != nil {
		return nil, b, err
	}
	return b[: len(b)-len(rest) : len(b)-len(rest)], rest, nil
}

// readAdapterID reports whether there is an adapter; its number names none.
func readAdapterID(b []byte) (given bool, rest []byte, err error) {
	if t := msgp.NextType(b); t == msgp.StrType {
		s, rest, err := msgp.ReadStringZC(b)
		return len(s) > 0, rest, err
	}
	v, rest, err := readUint(b)
	return v != 0, rest, err
}

// readAdapter reads an adapter's name, or an object with the salt, which
// SGLang puts in that place.
func readAdapter(e *event, b []byte) (rest []byte, err error) {
	if msgp.NextType(b) != msgp.MapType {
		e.adapter, rest, err = readText(b)
		return rest, err
	}
	n, b, err := mapHeader(b)
	if err != nil {
		return b, err
	}
	for range n {
		var key []byte
		if key, b, err = readKey(b); err != nil {
			return b, err
		}
		switch string(key) {
		case "cache_salt":
			e.salt, b, err = readText(b)
		case "lora_name":
			e.adapter, b, err = readText(b)
		default:
			b, err = skip(b)
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}
