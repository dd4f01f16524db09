package feed

import (
	"encoding/binary"
	"errors"

	"github.com/tinylib/msgp/msgp"
)

var (
	errShort = errors.New("message ends early")
	errType  = errors.New("field of another type")
)

// arrayHeader and mapHeader read a header and refuse a count that the bytes
// left cannot hold, before anyone loops or allocates by it.
func arrayHeader(b []byte) (n int, rest []byte, err error) {
	size, rest, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return 0, b, err
	}
	if uint64(size) > uint64(len(rest)) {
		return 0, b, errShort
	}
	return int(size), rest, nil
}

func mapHeader(b []byte) (n int, rest []byte, err error) {
	size, rest, err := msgp.ReadMapHeaderBytes(b)
	if err != nil {
		return 0, b, err
	}
	if 2*uint64(size) > uint64(len(rest)) {
		return 0, b, errShort
	}
	return int(size), rest, nil
}

// readUint reads an integer of any width and sign; a negative one is taken bit
// for bit, which is how engines put a 64-bit hash into a signed field.
func readUint(b []byte) (v uint64, rest []byte, err error) {
	if len(b) == 0 {
		return 0, b, errShort
	}
	switch lead := b[0]; {
	case lead < 0x80:
		return uint64(lead), b[1:], nil
	case lead == 0xcd && len(b) >= 3: // token ids, mostly
		return uint64(binary.BigEndian.Uint16(b[1:])), b[3:], nil
	case lead >= 0xcc && lead <= 0xcf:
		return msgp.ReadUint64Bytes(b)
	case lead >= 0xe0 || (lead >= 0xd0 && lead <= 0xd3):
		i, rest, err := msgp.ReadInt64Bytes(b)
		return uint64(i), rest, err
	}
	return 0, b, errType
}

// readText reads a string without copying; nil is the empty string.
func readText(b []byte) (s, rest []byte, err error) {
	if len(b) > 0 && b[0] == nilByte {
		return nil, b[1:], nil
	}
	return msgp.ReadStringZC(b)
}

// readKey reads the key of a map: a string, or bytes.
func readKey(b []byte) (s, rest []byte, err error) {
	if msgp.NextType(b) == msgp.BinType {
		return msgp.ReadBytesZC(b)
	}
	return msgp.ReadStringZC(b)
}

const nilByte = 0xc0

// skip returns what follows the next value. It does not recurse: a value owes
// as many values as it has elements, and each owed one takes a byte at least.
func skip(b []byte) (rest []byte, err error) {
	for owed := uint64(1); owed > 0; owed-- {
		if owed > uint64(len(b)) {
			return nil, errShort
		}
		size, children := uint64(1), uint64(0)
		switch lead := b[0]; {
		case lead < 0x80 || lead >= 0xe0 || lead == nilByte || lead == 0xc2 || lead == 0xc3:
		case lead < 0x90:
			children = 2 * uint64(lead&0x0f)
		case lead < 0xa0:
			children = uint64(lead & 0x0f)
		case lead < 0xc0:
			size += uint64(lead & 0x1f)
		default:
			if size, children, err = sized(b); err != nil {
				return nil, err
			}
		}
		if size > uint64(len(b)) {
			return nil, errShort
		}
		b = b[size:]
		owed += children
	}
	return b, nil
}

// sized returns the bytes of a value whose length is not in its first byte, or
// is fixed by it, and how many values follow as its elements.
func sized(b []byte) (size, children uint64, err error) {
	lead := b[0]
	switch lead {
	case 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf:
		width, extra := widthOf(lead)
		if len(b) < 1+width {
			return 0, 0, errShort
		}
		n := uint64(0)
		for _, c := range b[1 : 1+width] {
			n = n<<8 | uint64(c)
		}
		switch {
		case lead >= 0xde:
			return uint64(1 + width), 2 * n, nil
		case lead >= 0xdc:
			return uint64(1 + width), n, nil
		}
		return uint64(1+width) + extra + n, 0, nil
	case 0xca, 0xce, 0xd2:
		return 5, 0, nil
	case 0xcb, 0xcf, 0xd3:
		return 9, 0, nil
	case 0xcc, 0xd0:
		return 2, 0, nil
	case 0xcd, 0xd1:
		return 3, 0, nil
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return 2 + 1<<(lead-0xd4), 0, nil
	}
	return 0, 0, errType // 0xc1 is never used
}

// widthOf returns the bytes of the length field, and one more for the type of
// an extension.
func widthOf(lead byte) (width int, extra uint64) {
	switch lead {
	case 0xc4, 0xd9:
		return 1, 0
	case 0xc5, 0xda, 0xdc, 0xde:
		return 2, 0
	case 0xc7:
		return 1, 1
	case 0xc8:
		return 2, 1
	case 0xc9:
		return 4, 1
	}
	return 4, 0
}
