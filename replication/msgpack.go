package replication

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// The encoder appends smallest forms; integers are unsigned.

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 128:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, 0xcc, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
	}
}

func appendString(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

func appendBytes(b, s []byte) []byte {
	b = binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(len(s)))
	return append(b, s...)
}

// decoder reads MessagePack from a payload. It allocates only what it returns,
// never by a length that the payload merely claims, and does not recurse deeper
// than maxDepth. After the first error it returns zeros.
type decoder struct {
	rest []byte
	err  error
}

const maxDepth = 16

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	d.rest = nil
}

// take returns the next n bytes, which stay the payload's.
func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.fail("truncated")
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0xc1 // never used by MessagePack
}

// big returns a big-endian number of n bytes.
func (d *decoder) big(n uint64) (v uint64) {
	for _, b := range d.take(n) {
		v = v<<8 | uint64(b)
	}
	return v
}

// mapLen returns how many pairs the map has that begins here. Each takes at least
// two bytes, so a larger claim is refused.
func (d *decoder) mapLen() int {
	var n uint64
	switch c := d.byte(); {
	case c&0xf0 == 0x80:
		n = uint64(c & 0x0f)
	case c == 0xde:
		n = d.big(2)
	case c == 0xdf:
		n = d.big(4)
	default:
		d.fail("not a map")
	}
	if n > uint64(len(d.rest)/2) {
		d.fail("a map longer than the payload")
		return 0
	}
	return int(n)
}

func (d *decoder) uint() uint64 {
	c := d.byte()
	switch {
	case c < 0x80:
		return uint64(c)
	case c >= 0xcc && c <= 0xcf:
		return d.big(1 << (c - 0xcc))
	case c >= 0xd0 && c <= 0xd3:
		n := uint64(1) << (c - 0xd0)
		v := d.big(n)
		if v>>(8*n-1) == 0 {
			return v
		}
		d.fail("a negative integer")
	default:
		d.fail("not an integer")
	}
	return 0
}

// isNil skips a nil and reports whether there was one.
func (d *decoder) isNil() bool {
	if len(d.rest) > 0 && d.rest[0] == 0xc0 {
		d.rest = d.rest[1:]
		return true
	}
	return false
}

// raw returns a string or bin; its bytes stay the payload's.
func (d *decoder) raw() []byte {
	switch c := d.byte(); {
	case c&0xe0 == 0xa0:
		return d.take(uint64(c & 0x1f))
	case c >= 0xd9 && c <= 0xdb:
		return d.take(d.big(1 << (c - 0xd9)))
	case c >= 0xc4 && c <= 0xc6:
		return d.take(d.big(1 << (c - 0xc4)))
	default:
		d.fail("not a string")
		return nil
	}
}

func (d *decoder) str() string { return string(d.raw()) }

// skip passes over one value.
func (d *decoder) skip(depth int) {
	if depth > maxDepth {
		d.fail("nested too deeply")
		return
	}
	c := d.byte()
	var values uint64
	switch {
	case d.err != nil, c < 0x80, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3:
		return
	case c&0xf0 == 0x80:
		values = 2 * uint64(c&0x0f)
	case c&0xf0 == 0x90:
		values = uint64(c & 0x0f)
	case c&0xe0 == 0xa0:
		d.take(uint64(c & 0x1f))
	case c >= 0xc4 && c <= 0xc6:
		d.take(d.big(1 << (c - 0xc4)))
	case c >= 0xc7 && c <= 0xc9:
		d.take(d.big(1<<(c-0xc7)) + 1)
	case c == 0xca:
		d.take(4)
	case c == 0xcb:
		d.take(8)
	case c >= 0xcc && c <= 0xd3:
		d.take(1 << ((c - 0xcc) % 4))
	case c >= 0xd4 && c <= 0xd8:
		d.take(1<<(c-0xd4) + 1)
	case c >= 0xd9 && c <= 0xdb:
		d.take(d.big(1 << (c - 0xd9)))
	case c == 0xdc || c == 0xdd:
		values = d.big(2 << (c - 0xdc))
	case c == 0xde || c == 0xdf:
		values = 2 * d.big(2<<(c-0xde))
	default:
		d.fail("an unused code")
	}
	if values > uint64(len(d.rest)) {
		d.fail("a list longer than the payload")
		return
	}
	for ; values > 0 && d.err == nil; values-- {
		d.skip(depth + 1)
	}
}

// fields calls f for each pair of the map that is the whole payload. f reads the
// value or returns false to have it skipped. A key that comes twice is refused:
// readers that took the first would disagree with those that take the last.
func (d *decoder) fields(f func(key []byte) bool) {
	if len(d.rest) > MaxPayload {
		d.fail("too large")
	}
	seen := make([][]byte, 0, 16)
	for n := d.mapLen(); n > 0 && d.err == nil; n-- {
		if n > 64 {
			d.fail("too many keys")
			return
		}
		key := d.raw()
		for _, k := range seen {
			if d.err == nil && bytes.Equal(k, key) {
				d.fail("a key that comes twice")
				return
			}
		}
		seen = append(seen, key)
		if !f(key) {
			d.skip(0)
		}
	}
	if d.err == nil && len(d.rest) > 0 {
		d.fail("bytes after the map")
	}
}
