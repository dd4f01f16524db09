package feed

import (
	"bytes"
	"errors"

	"github.com/tinylib/msgp/msgp"

	"mooring/kvstate/blockhash"
)

// saltTag precedes a cache salt among the extra keys of the first block.
const saltTag = "dynamo-cache-salt:"

// maxInputs bounds the multimodal inputs of one event.
const maxInputs = 1 << 16

// extraKeys are what, beside its tokens, made an engine's block hashes: a salt
// and multimodal inputs. Used again for every event.
type extraKeys struct {
	salt   []byte
	plain  bool     // no multimodal inputs
	inputs []uint64 // their hashes, block after block
	ends   []int    // where those of each block end
}

// of returns the hashes of the inputs in block i.
func (k *extraKeys) of(i int) []uint64 {
	start := 0
	if i > 0 {
		start = k.ends[i-1]
	}
	return k.inputs[start:k.ends[i]]
}

// read reads the extra keys and multimodal infos of the first n blocks:
//
//	extra_keys     = [[item...] or nil, ...]   one a block
//	block_mm_infos = [{"mm_objects": [{"mm_hash": u64, ...}...]} or nil, ...]
//
// An item is an adapter's name (skipped once), a tagged salt, a multimodal
// input ([identifier, offset], or a bare identifier of 64 hex digits), or
// something that is none of these. The latter, on the first block of a
// sequence, is a salt (so vLLM sends it, untagged); elsewhere it is taken as an
// input, so that blocks that an engine keeps apart are never mixed up here.
func (k *extraKeys) read(e *event, n int) error {
	k.salt, k.plain, k.inputs, k.ends = nil, true, k.inputs[:0], k.ends[:0]
	if e.extra == nil && e.images == nil {
		return nil
	}
	extra, images := blockList{left: e.extra}, blockList{left: e.images}
	if err := errors.Join(extra.open(), images.open()); err != nil {
		return err
	}
	for i := range n {
		keys, infos, err := nextOfBoth(&extra, &images)
		if err != nil {
			return err
		}
		if err := k.items(e, keys, i == 0 && !e.hasParent); err != nil {
			return err
		}
		if err := k.infos(infos); err != nil {
			return err
		}
		if len(k.inputs) > maxInputs {
			return errTooLarge
		}
		k.ends = append(k.ends, len(k.inputs))
	}
	k.plain = len(k.inputs) == 0
	return nil
}

// items reads the extra keys of one block.
func (k *extraKeys) items(e *event, b []byte, first bool) error {
	if b == nil {
		return nil
	}
	n, b, err := arrayHeader(b)
	if err != nil {
		return err
	}
	adapter := len(e.adapter) > 0 // one item with its name is due
	for range n {
		var s []byte
		switch msgp.NextType(b) {
		case msgp.StrType:
			if s, b, err = msgp.ReadStringZC(b); err == nil {
				if adapter && bytes.Equal(s, e.adapter) {
					adapter = false
					continue
				}
				k.text(s, first)
			}
		case msgp.BinType:
			if s, b, err = msgp.ReadBytesZC(b); err == nil {
				k.input(s)
			}
		case msgp.ArrayType:
			if s, b, err = taggedInput(b); err == nil {
				k.input(s)
			}
		default: // an offset, the adapter's number: they do not tell blocks apart
			b, err = skip(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// text takes a bare string.
func (k *extraKeys) text(s []byte, first bool) {
	salt, tagged := bytes.CutPrefix(s, []byte(saltTag))
	switch {
	case tagged:
		if len(k.salt) == 0 {
			k.salt = salt
		}
	case first && len(k.salt) == 0 && !isContentHash(s):
		k.salt = s
	default:
		k.input(s)
	}
}

func (k *extraKeys) input(identifier []byte) {
	if h, ok := blockhash.Multimodal(string(identifier)); ok {
		k.inputs = append(k.inputs, h)
	}
}

func isContentHash(s []byte) bool {
	if len(s) != 64 {
		return false
	}
	return len(bytes.Trim(s, "0123456789abcdefABCDEF")) == 0
}

// taggedInput reads [identifier, offset].
func taggedInput(b []byte) (identifier, rest []byte, err error) {
	rest, err = skip(b)
	if err != nil {
		return nil, nil, err
	}
	n, b, err := arrayHeader(b)
	if err != nil || n == 0 {
		return nil, rest, err
	}
	identifier, _, err = readKey(b)
	return identifier, rest, err
}

// infos reads the multimodal infos of one block.
func (k *extraKeys) infos(b []byte) error {
	if b == nil {
		return nil
	}
	objects, err := lookup(b, "mm_objects")
	if err != nil || objects == nil {
		return err
	}
	list := blockList{left: objects}
	if err := list.open(); err != nil {
		return err
	}
	for list.n > 0 {
		object, err := list.next()
		if err != nil {
			return err
		}
		if object == nil {
			continue
		}
		value, err := lookup(object, "mm_hash")
		if err != nil {
			return err
		}
		h, _, err := readHash(value)
		if err != nil {
			return err
		}
		k.inputs = append(k.inputs, h)
	}
	return nil
}

// lookup returns the encoded value of a key; nil: none, or nil.
func lookup(b []byte, name string) (value []byte, err error) {
	n, b, err := mapHeader(b)
	if err != nil {
		return nil, err
	}
	for range n {
		key, after, err := readKey(b)
		if err != nil {
			return nil, err
		}
		v, rest, err := raw(after)
		if err != nil {
			return nil, err
		}
		if string(key) == name && v[0] != nilByte {
			value = v
		}
		b = rest
	}
	return value, nil
}

// A blockList walks over an encoded list; a short one, or none, goes on as nil.
type blockList struct {
	left []byte
	n    int
}

func (l *blockList) open() (err error) {
	if l.left != nil {
		l.n, l.left, err = arrayHeader(l.left)
	}
	return err
}

func (l *blockList) next() (value []byte, err error) {
	if l.n == 0 {
		return nil, nil
	}
	l.n--
	if value, l.left, err = raw(l.left); err != nil || value[0] == nilByte {
		return nil, err
	}
	return value, nil
}

func nextOfBoth(a, b *blockList) (x, y []byte, err error) {
	if x, err = a.next(); err != nil {
		return nil, nil, err
	}
	y, err = b.next()
	return x, y, err
}
