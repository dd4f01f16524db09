package zmqsock

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// Reason says why a connection ended or never came to be. It is a closed list,
// fit to be a metric's label.
type Reason uint8

const (
	Stopped          Reason = iota // by us: Close, or the context ended
	Unreachable                    // no TCP connection
	HandshakeTimeout               // greeting or READY not complete in time
	HandshakeInvalid               // not ZMTP 3 with NULL, a malformed READY, or a socket type that does not fit
	Crowded                        // refused or pushed out because too many connections are there
	PeerClosed                     // the peer, or the network, ended it
	Idle                           // nothing was heard for IdleTimeout
	Stalled                        // a message begun was not finished, or the peer does not read
	Violation                      // bytes that are not ZMTP 3 traffic fit for this socket
	TooLarge                       // a frame or message over the limit
	Flood                          // more control traffic or topics than allowed
	Internal                       // the codec panicked; the connection alone suffers
	reasons                        // how many there are
)

// String returns the reason as a metric's label.
func (r Reason) String() string {
	switch r {
	case Stopped:
		return "stopped"
	case Unreachable:
		return "unreachable"
	case HandshakeTimeout:
		return "handshake_timeout"
	case HandshakeInvalid:
		return "handshake_invalid"
	case Crowded:
		return "crowded"
	case PeerClosed:
		return "peer_closed"
	case Idle:
		return "idle"
	case Stalled:
		return "stalled"
	case Violation:
		return "violation"
	case TooLarge:
		return "too_large"
	case Flood:
		return "flood"
	case Internal:
		return "internal"
	}
	return fmt.Sprintf("reason_%d", uint8(r))
}

// An ending is the error that ends a connection, with its reason.
type ending struct {
	reason Reason
	err    error
}

func (e *ending) Error() string { return e.reason.String() + ": " + e.err.Error() }
func (e *ending) Unwrap() error { return e.err }

func endf(r Reason, format string, args ...any) *ending {
	return &ending{reason: r, err: fmt.Errorf(format, args...)}
}

// reasonOf returns the reason err carries, otherwise the given one.
func reasonOf(err error, otherwise Reason) Reason {
	if e, ok := errors.AsType[*ending](err); ok {
		return e.reason
	}
	return otherwise
}

// whoClosed returns who closed a connection that can be used no more: we did, or
// the peer.
func whoClosed(err error) Reason {
	if errors.Is(err, net.ErrClosed) {
		return Stopped
	}
	return PeerClosed
}

// tally counts by reason; safe for concurrent use.
type tally [reasons]atomic.Uint64

func (t *tally) snapshot() map[Reason]uint64 {
	m := make(map[Reason]uint64, reasons)
	for r := range reasons {
		m[r] = t[r].Load()
	}
	return m
}
