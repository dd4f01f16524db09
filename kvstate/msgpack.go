package kvstate

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// maxMsgDepth bounds the nesting of values that are passed over.
const maxMsgDepth = 16

// msgReader reads MessagePack. It allocates only what it returns, never by a
// length that the payload merely claims, and does not recurse by what it says.
// After the first error it returns zeros.
type msgReader struct {
	rest []byte
	err  error
}

func (r *msgReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

// took notes how a msgp function ended.
func (r *msgReader) took(rest []byte, err error) {
	if err != nil {
		r.fail(err)
		return
	}
	r.rest = rest
}

// arrayLen returns how many elements the array has that begins here. Each takes at
// least one byte, so a larger claim is refused.
func (r *msgReader) arrayLen() int {
	n, rest, err := msgp.ReadArrayHeaderBytes(r.rest)
	r.took(rest, err)
	return r.claimed(uint64(n), 1)
}

// mapLen is arrayLen for the pairs of a map.
func (r *msgReader) mapLen() int {
	n, rest, err := msgp.ReadMapHeaderBytes(r.rest)
	r.took(rest, err)
	return r.claimed(uint64(n), 2)
}

func (r *msgReader) claimed(n, size uint64) int {
	if r.err == nil && n*size > uint64(len(r.rest)) {
		r.fail(fmt.Errorf("%d elements claimed in %d bytes", n, len(r.rest)))
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// object reads a map: field for each of its keys that is in names, in any order.
// Unknown keys are passed over, a key that comes twice is an error, and so is a
// missing one of the first required names. At most 16 names.
func (r *msgReader) object(names []string, required int, field func(name string)) {
	var seen uint16
	for n := r.mapLen(); n > 0 && r.err == nil; n-- {
		key, rest, err := msgp.ReadMapKeyZC(r.rest)
		r.took(rest, err)
		i := indexOf(names, key)
		switch {
		case r.err != nil:
		case i < 0:
			r.skip(0)
		case seen>>i&1 != 0:
			r.fail(fmt.Errorf("field %q twice", names[i]))
		default:
			seen |= 1 << i
			if field(names[i]); r.err != nil {
				r.err = fmt.Errorf("%s: %w", names[i], r.err)
			}
		}
	}
	for i, name := range names[:required] {
		if seen>>i&1 == 0 && r.err == nil {
			r.fail(missingField(name))
		}
	}
}

func indexOf(names []string, key []byte) int {
	for i, name := range names {
		if name == string(key) {
			return i
		}
	}
	return -1
}

func (r *msgReader) uint() uint64 {
	v, rest, err := msgp.ReadUint64Bytes(r.rest)
	r.took(rest, err)
	return v
}

func (r *msgReader) uint32() uint32 {
	v := r.uint()
	if v > math.MaxUint32 {
		r.fail(fmt.Errorf("%d does not fit 32 bits", v))
	}
	return uint32(v)
}

// hash reads a hash; a negative one is the same 64 bits read as signed.
func (r *msgReader) hash() uint64 {
	if msgp.NextType(r.rest) != msgp.IntType {
		return r.uint()
	}
	v, rest, err := msgp.ReadInt64Bytes(r.rest)
	r.took(rest, err)
	return uint64(v)
}

// text reads a string; its bytes stay the payload's.
func (r *msgReader) text() []byte {
	s, rest, err := msgp.ReadStringZC(r.rest)
	r.took(rest, err)
	if !utf8.Valid(s) {
		r.fail(errors.New("not valid UTF-8"))
	}
	return s
}

// stringNext returns the string that begins here, nil if it is no string. Its
// bytes stay the payload's.
func (r *msgReader) stringNext() []byte {
	if msgp.NextType(r.rest) != msgp.StrType {
		return nil
	}
	return r.text()
}

// isNil passes over a nil and reports whether there was one.
func (r *msgReader) isNil() bool {
	if !msgp.IsNil(r.rest) {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// skip passes over one value.
func (r *msgReader) skip(depth int) {
	values := 0
	switch msgp.NextType(r.rest) {
	case msgp.ArrayType:
		values = r.arrayLen()
	case msgp.MapType:
		values = 2 * r.mapLen()
	default:
		r.took(msgp.Skip(r.rest))
	}
	if values > 0 && depth >= maxMsgDepth {
		r.fail(fmt.Errorf("nested deeper than %d", maxMsgDepth))
	}
	for ; values > 0 && r.err == nil; values-- {
		r.skip(depth + 1)
	}
}

func readMsgEnum[T ~uint8](r *msgReader, e enum[T], v *T) {
	if name := r.text(); r.err == nil {
		if err := enumParse(e, name, v); err != nil {
			r.fail(err)
		}
	}
}
