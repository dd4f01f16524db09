package affinity

import (
	"errors"
	"fmt"
	"strings"

	"mooring/internal/fleet"
)

// What Acquire, Bind and Pin refuse; test with errors.Is. Their texts name no
// session and no worker, so that they may be shown to clients.
var (
	// ErrFull: the partition has no room for another session. The request is
	// best routed without one.
	ErrFull = errors.New("the session table is full")
	// ErrInvalidSession: the session id breaks the rules of SessionID.
	ErrInvalidSession = errors.New("invalid session id")
	// ErrWorkerGone: the bound or the requested worker is not schedulable.
	ErrWorkerGone = errors.New("the worker is not available")
	// ErrConflict: the requested or dispatched target contradicts the binding, or
	// the target to bind contradicts what the same request had asked for.
	ErrConflict = errors.New("the session is bound to another target")
	// ErrInitialiserLost: this initialiser took too long, or somebody else bound
	// the session meanwhile. The session can be acquired again.
	ErrInitialiserLost = errors.New("the turn to choose a worker was lost")
	// ErrSequenceExhausted: the session's version cannot grow any more, so it
	// cannot be bound anew until it expires.
	ErrSequenceExhausted = errors.New("the session's version is at its limit")
)

// errNoTarget is a programmer's error: Bind or Pin without a target.
var errNoTarget = errors.New("no target to bind")

// UnknownTargetError refuses a pin to a worker or rank that does not exist in
// the partition. Its text lists what does, for operators; not for clients.
type UnknownTargetError struct {
	Target    fleet.Target
	Partition fleet.Partition
	Workers   []*fleet.Worker // what exists, ordered by id; must not be changed
}

// Error lists at most the first 50 workers that exist.
func (e *UnknownTargetError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no target %v in model %q, group %q; there is", e.Target, e.Partition.Model, e.Partition.Group)
	const most = 50
	for i, w := range e.Workers[:min(len(e.Workers), most)] {
		sep := ", "
		if i == 0 {
			sep = " "
		}
		fmt.Fprintf(&b, "%s%v (%s, %v", sep, w.ID, w.Address, w.State)
		if w.Ranks > 1 {
			fmt.Fprintf(&b, ", ranks 0 to %d", w.Ranks-1)
		} else {
			b.WriteString(", rank 0")
		}
		b.WriteString(")")
	}
	switch more := len(e.Workers) - most; {
	case len(e.Workers) == 0:
		b.WriteString(" none")
	case more > 0:
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}
