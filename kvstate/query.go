package kvstate

// QueryOp is what a [QueryRequest] asks for. The zero value is QueryRecovery.
type QueryOp uint8

const (
	// QueryRecovery asks for events by rank, without naming an agent: old clients.
	QueryRecovery QueryOp = iota
	// QueryStateAgentRecovery asks one exact agent for its state.
	QueryStateAgentRecovery
	// QueryStatus asks one exact agent how it is.
	QueryStatus
)

// QueryKind is the operation and, for the operations that name an agent, which
// one. On the wire: "recovery", or {"status":{"expected":{...},
// "expected_attachment_generation":7}}, or the same under "state_agent_recovery".
type QueryKind struct {
	Op                           QueryOp
	Expected                     AgentIdentity // unused by QueryRecovery
	ExpectedAttachmentGeneration *uint64       // nil: whatever it is; unused by QueryRecovery
}

// QueryRequest asks a worker's or state agent's control endpoint.
type QueryRequest struct {
	WorkerID     uint64  `json:"worker_id"` // 0 while detached
	DPRank       uint32  `json:"dp_rank"`
	StartEventID *uint64 `json:"start_event_id,omitzero"` // inclusive; nil: everything
	EndEventID   *uint64 `json:"end_event_id,omitzero"`   // inclusive; nil: to the newest
	// SupportsTreeDumpFailed opts in to TreeDumpFailed; without it a failed dump
	// is answered by Error.
	SupportsTreeDumpFailed bool      `json:"supports_tree_dump_failed"`
	Kind                   QueryKind `json:"kind"`
}

// QueryResponse is the answer: exactly one field is set. On the wire it is an
// object with that field as its only key: {"Error":"busy"}.
type QueryResponse struct {
	Status             *AgentStatus             `json:"Status,omitzero"`
	StateAgentRecovery *StateAgentRecoveryReply `json:"StateAgentRecovery,omitzero"`
	Events             *EventsReply             `json:"Events,omitzero"`
	TreeDump           *TreeDumpReply           `json:"TreeDump,omitzero"`
	TreeDumpFailed     *TreeDumpFailedReply     `json:"TreeDumpFailed,omitzero"`
	TooNew             *TooNewReply             `json:"TooNew,omitzero"`
	InvalidRange       *InvalidRangeReply       `json:"InvalidRange,omitzero"`
	Error              *string                  `json:"Error,omitzero"`
}

// StateAgentRecoveryReply is a recovery with its proof. Response is any other
// variant; it never holds another StateAgentRecovery.
type StateAgentRecoveryReply struct {
	Response QueryResponse   `json:"response"`
	Receipt  RecoveryReceipt `json:"receipt"`
}

// EventsReply is a contiguous tail of the event stream.
type EventsReply struct {
	Events      []RouterEvent `json:"events"`
	LastEventID uint64        `json:"last_event_id"` // the cursor after applying Events
}

// TreeDumpReply is a full state as store events, parents before children. The
// events' own ids are synthetic.
type TreeDumpReply struct {
	Events      []RouterEvent `json:"events"`
	LastEventID uint64        `json:"last_event_id"` // the cursor after applying Events
	ResetScope  ResetScope    `json:"reset_scope"`   // what the dump replaces
}

// TreeDumpFailedReply says that no dump could be made. It is never an empty tree.
type TreeDumpFailedReply struct {
	LastEventID uint64 `json:"last_event_id"`
	Message     string `json:"message"`
}

// TooNewReply says that the range asked for has not happened yet.
type TooNewReply struct {
	RequestedStart  *uint64 `json:"requested_start,omitzero"`
	RequestedEnd    *uint64 `json:"requested_end,omitzero"`
	NewestAvailable uint64  `json:"newest_available"`
}

// InvalidRangeReply says that the range asked for ends before it starts.
type InvalidRangeReply struct {
	StartID uint64 `json:"start_id"`
	EndID   uint64 `json:"end_id"`
}

// ResetScope is which domains a dump replaces. The zero value is all of them. On
// the wire: "all" or {"domain":"cache_owner"}.
type ResetScope struct {
	Limited bool   // only Domain
	Domain  Domain // meaningful only if Limited
}
