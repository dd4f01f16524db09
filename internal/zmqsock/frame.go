package zmqsock

import "encoding/binary"

// The flags of a ZMTP 3.0 frame. On the wire: flags, then the length in one
// byte, or in eight (big endian) if flagLong is set, then the body.
//
//	01 05 "topic"  00 03 "abc"     a message of two frames
//	04 08 04 "PING" 00 0a "x"      a command: its name, a TTL of 1 s, context "x"
const (
	flagMore    = 1 << 0
	flagLong    = 1 << 1
	flagCommand = 1 << 2

	// maxCommand bounds the body of a command in traffic. PING has 5 bytes of
	// name, 2 of TTL and at most 16 of context.
	maxCommand = 255
)

// limits bound one incoming message.
type limits struct {
	frames, bytes int
}

// checker follows the frames of one connection and says of each header, before
// any memory is spent on it, whether the frame may come. Owned by the reader.
type checker struct {
	limits        limits
	frames, bytes int // of the message so far; zero between messages
}

// header checks the next frame. Commands may come between the frames of a
// message: libzmq puts a PING there when its timer says so.
func (c *checker) header(flags byte, size uint64) error {
	switch {
	case flags&^(flagMore|flagLong|flagCommand) != 0:
		return endf(Violation, "reserved bits in frame flags %#02x", flags)
	case flags&flagCommand != 0 && flags&flagMore != 0:
		return endf(Violation, "command of more than one frame")
	case flags&flagCommand != 0 && size > maxCommand:
		return endf(TooLarge, "command of %d bytes, limit %d", size, maxCommand)
	case flags&flagCommand != 0:
		return nil
	case c.frames >= c.limits.frames:
		return endf(TooLarge, "message of more than %d frames", c.limits.frames)
	case size > uint64(c.limits.bytes-c.bytes):
		return endf(TooLarge, "message of %d bytes and more, limit %d", uint64(c.bytes)+min(size, 1<<62), c.limits.bytes)
	}
	c.frames++
	c.bytes += int(size)
	if flags&flagMore == 0 {
		c.frames, c.bytes = 0, 0
	}
	return nil
}

// between reports whether no message has been begun.
func (c *checker) between() bool { return c.frames == 0 }

// encode returns the frames as one message, ready for the wire. It is done
// once for all peers, which is why it is not left to the library.
func encode(frames [][]byte) []byte {
	wire := make([]byte, 0, sizeOf(frames)+9*len(frames))
	for i, f := range frames {
		var flags byte
		if i < len(frames)-1 {
			flags = flagMore
		}
		wire = appendFrame(wire, flags, f)
	}
	return wire
}

func appendFrame(wire []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		wire = append(wire, flags|flagLong)
		wire = binary.BigEndian.AppendUint64(wire, uint64(len(body)))
	} else {
		wire = append(wire, flags, byte(len(body)))
	}
	return append(wire, body...)
}

func sizeOf(frames [][]byte) int {
	n := 0
	for _, f := range frames {
		n += len(f)
	}
	return n
}
