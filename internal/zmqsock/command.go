package zmqsock

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/go-zeromq/zmq4"
)

const (
	maxReady      = 4096 // bytes of a READY command
	maxProperties = 32
)

// checkReady checks the body of the first command of a peer so that the codec,
// which slices a property without looking whether it is there, is safe on it:
//
//	05 "READY"  0b "Socket-Type" 00 00 00 03 "SUB"  08 "Identity" 00 00 00 00
//
// The socket type must be there, once, and be one of fits: the codec panics on
// one that it does not know.
func checkReady(body []byte, fits [2]zmq4.SocketType) error {
	name, rest, ok := cutName(body)
	if !ok || name != "READY" {
		return endf(HandshakeInvalid, "first command is not READY")
	}
	kind := ""
	for n := 0; len(rest) > 0; n++ {
		if n == maxProperties {
			return endf(HandshakeInvalid, "READY with more than %d properties", maxProperties)
		}
		key, after, ok := cutName(rest)
		if !ok || key == "" || !isPropertyName(key) || len(after) < 4 {
			return endf(HandshakeInvalid, "malformed property in READY")
		}
		size := binary.BigEndian.Uint32(after)
		after = after[4:]
		if uint64(size) > uint64(len(after)) {
			return endf(HandshakeInvalid, "property in READY claims %d bytes of %d", size, len(after))
		}
		if strings.EqualFold(key, "Socket-Type") {
			// Other spellings than these two the codec would not find.
			if kind != "" || (key != "Socket-Type" && key != "socket-type") {
				return endf(HandshakeInvalid, "bad or second Socket-Type in READY")
			}
			kind = string(after[:size])
		}
		rest = after[size:]
	}
	if t := zmq4.SocketType(kind); t != fits[0] && t != fits[1] {
		return endf(HandshakeInvalid, "socket type %q, want %s or %s", kind, fits[0], fits[1])
	}
	return nil
}

// cutName cuts off a string that is preceded by its length in one byte.
func cutName(b []byte) (name string, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]) > len(b)-1 {
		return "", nil, false
	}
	n := int(b[0])
	return string(b[1 : 1+n]), b[1+n:], true
}

// isPropertyName holds names to the characters of ZMTP's grammar.
func isPropertyName(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '-', c == '_', c == '.', c == '+':
		default:
			return false
		}
	}
	return true
}

// answer returns the frame to send back for a command in traffic: a PONG with
// the context of a PING, nothing for a PONG. Other commands end the connection:
// none is due between peers that announced ZMTP 3.0.
func answer(body []byte) (frame []byte, err error) {
	name, rest, ok := cutName(body)
	switch {
	case !ok:
		return nil, endf(Violation, "malformed command")
	case name == "PONG":
		return nil, nil
	case name != "PING":
		return nil, endf(Violation, "unexpected command %q", name)
	case len(rest) < 2 || len(rest) > 2+16:
		return nil, endf(Violation, "PING of %d bytes", len(rest))
	}
	return appendFrame(nil, flagCommand, append([]byte("\x04PONG"), rest[2:]...)), nil
}

// allowance is a token bucket for what a peer may ask of us without being
// asked itself: control commands and, of a subscriber, subscriptions. The zero
// value is full. Owned by the reader.
type allowance struct {
	used float64
	at   time.Time
}

const (
	allowanceBurst = 256
	allowanceRate  = 100 // per second
)

func (a *allowance) allow(now time.Time) error {
	a.used = max(0, a.used-now.Sub(a.at).Seconds()*allowanceRate) + 1
	a.at = now
	if a.used > allowanceBurst {
		return endf(Flood, "more than %d control messages at once, then %d/s", allowanceBurst, allowanceRate)
	}
	return nil
}
