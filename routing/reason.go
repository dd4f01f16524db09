package routing

import "strconv"

// Reason says why a request went where it went, or why it went nowhere. The
// list is closed: it is used in metadata, metrics, traces, logs and explain.
type Reason uint8

const (
	// Bound: the session was bound to a live worker.
	Bound Reason = iota
	// New: the session was new and is bound now.
	New
	// Rebound: the session's worker had gone; it is bound to another one now.
	Rebound
	// Explicit: the client named the worker.
	Explicit
	// NoSession: the request names no session and was bound to nothing. It was
	// chosen for by its prompt, if that was known, and else by load.
	NoSession
	// NoModel: the request names no model where its group serves several; it
	// went to any worker of the group, unpinned.
	NoModel
	// NoTokens: the session was new, and its prompt could not be turned into tokens
	// where it would have mattered: in a partition whose KV state is known. The
	// choice was made by load alone. Elsewhere such a session is New.
	NoTokens
	// TableFull: the session table is full; the request went unpinned.
	TableFull
	// WorkerGone: the session's worker is gone and must not be replaced.
	WorkerGone
	// NoWorker: nobody can serve this.
	NoWorker
	// Overloaded: all who could serve this are over their limits.
	Overloaded
	// Subset: the gateway's subset leaves nobody who may serve this.
	Subset
	// Invalid: the request itself is wrong.
	Invalid
	// TooLarge: the body is over the limit.
	TooLarge
	// Deadline: no answer within the deadline.
	Deadline
)

var reasonNames = [...]string{
	Bound: "bound", New: "new", Rebound: "rebound", Explicit: "explicit", NoSession: "no_session", NoModel: "no_model",
	NoTokens: "no_tokens", TableFull: "table_full", WorkerGone: "worker_gone", NoWorker: "no_worker", Overloaded: "overloaded",
	Subset: "subset", Invalid: "invalid", TooLarge: "too_large", Deadline: "deadline",
}

// String returns the name used on the wire and in metrics.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "reason(" + strconv.Itoa(int(r)) + ")"
}
