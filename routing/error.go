package routing

import (
	"fmt"
	"time"
)

// Kind is the class of a refusal. The protocol in front turns it into a status.
type Kind uint8

const (
	// BadRequest: the client must change the request (400).
	BadRequest Kind = iota
	// UnknownModel: the model is not served here (404).
	UnknownModel
	// Conflict: the request contradicts what its session is bound to (409).
	Conflict
	// TooBig: the body is over the limit (413).
	TooBig
	// Busy: somebody could serve this, but all are full (429).
	Busy
	// Unavailable: nobody can serve this now (503).
	Unavailable
	// TimedOut: no decision within the deadline (503).
	TimedOut
)

// Error is a refused request. Message is meant for the client: it never names
// another session, a worker's address or an internal id. Err, if set, is the
// cause, for logs only.
type Error struct {
	Kind       Kind
	Reason     Reason
	Message    string
	RetryAfter time.Duration // when a retry may succeed; 0: not said
	Err        error
}

// Error returns the message and the cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Message, e.Err)
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func invalid(format string, args ...any) *Error {
	return &Error{Kind: BadRequest, Reason: Invalid, Message: fmt.Sprintf(format, args...)}
}
