package affinity

import (
	"strconv"
	"time"

	"mooring/internal/fleet"
)

// EventKind says what happened to a binding.
type EventKind uint8

const (
	// EventBound: the session was bound, re-bound or pinned, under a new version.
	EventBound EventKind = iota
	// EventUsed: a request ended and gave the binding its full life again.
	EventUsed
	// EventUnpinned: every binding of the session up to this version is void,
	// also where nothing was bound here.
	EventUnpinned
)

// String returns a lower-case word.
func (k EventKind) String() string {
	switch k {
	case EventBound:
		return "bound"
	case EventUsed:
		return "used"
	case EventUnpinned:
		return "unpinned"
	default:
		return "event(" + strconv.Itoa(int(k)) + ")"
	}
}

// Event is what Config.Publish is told. The version (Sequence, WriterID) is that
// of whoever made the binding, not of whoever used it.
type Event struct {
	Kind     EventKind
	Session  string
	Target   fleet.Target // zero for EventUnpinned
	Sequence uint64
	WriterID uint64
	Life     time.Duration // what the binding, or the memory of the unpin, has left at this moment
}

// Entry describes one binding at one moment.
type Entry struct {
	Session   string
	Partition fleet.Partition
	Target    fleet.Target

	Sequence uint64 // version: of two bindings the higher (Sequence, WriterID) is newer
	WriterID uint64

	Leases      int           // requests that use it now
	Idle        time.Duration // since its last use ended; 0 while it is in use
	ExpiresIn   time.Duration // if it is not used again; the full TTL while it is in use
	Schedulable bool          // whether a request of the session could go to Target now
}
