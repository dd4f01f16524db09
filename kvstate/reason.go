package kvstate

// State is the outcome of [Resolve]. Only Ready projects; neither of the others
// deletes anything that an index holds. The zero value is Unavailable.
type State uint8

const (
	// Unavailable: there is nothing to project, and that is known for sure.
	Unavailable State = iota
	// Unknown: there may be something to project, but it must not be believed.
	Unknown
	// Ready: the owner's blocks count for its worker.
	Ready
)

// String returns unavailable, unknown or ready.
func (s State) String() string { return enumString(states, s) }

// Reason is why a resolution is not Ready. Reasons are ordered as [Resolve]
// decides: the first that holds is the decisive one. The zero value is no reason.
type Reason uint8

const (
	// WatchUncertain (Unknown): discovery does not know the records now, so
	// nothing that follows from them is certain. Before everything else.
	WatchUncertain Reason = iota + 1
	// NoSource (Unavailable): no agent advertises the owner.
	NoSource
	// AmbiguousSource (Unknown): several source records name the owner, even if
	// they are identical: two agents may be numbering two streams.
	AmbiguousSource
	// NoAttachment (Unavailable): no engine is attached to the owner.
	NoAttachment
	// AmbiguousAttachment (Unknown): several attachment records name the owner,
	// whatever their publishers or workers: none is known to be the last.
	AmbiguousAttachment
	// WorkerNotLive (Unavailable): the attached worker cannot be sent anything.
	WorkerNotLive
	// EndpointUnreachable (Unknown): the agent gave no status: it timed out or
	// failed. It may be well and only the answer lost.
	EndpointUnreachable
	// StatusMismatch (Unknown): source, attachment and status do not tell one
	// story; [Resolution].Mismatches says where.
	StatusMismatch
	// RecoveryIdentityMismatch (Unknown): the state recovered came from another
	// owner, publisher, protocol or attachment generation than the one attached.
	RecoveryIdentityMismatch
	// RecoveryBehindBarrier (Unknown): no state was recovered yet, or the recovery
	// or the agent itself has not reached the attachment's barrier, so that blocks
	// of an earlier engine may still be counted. Reaching it exactly is enough.
	RecoveryBehindBarrier
)

// String returns the reason in snake_case, "" for none.
func (r Reason) String() string {
	if r == 0 {
		return ""
	}
	return enumString(reasons, r)
}

// State returns the state that r leads to; Ready for no reason.
func (r Reason) State() State {
	switch r {
	case 0:
		return Ready
	case NoSource, NoAttachment, WorkerNotLive:
		return Unavailable
	default:
		return Unknown
	}
}

// Mismatch is one comparison that failed under [StatusMismatch].
type Mismatch uint8

const (
	// StatusOwner: the status is another owner's.
	StatusOwner Mismatch = iota + 1
	// CacheOwnerNotReady: the agent is unsure of its cache-owner state.
	CacheOwnerNotReady
	// AttachmentPublisher: the attachment was made by another publisher than the source's.
	AttachmentPublisher
	// StatusPublisher: the status is another publisher's than the source's.
	StatusPublisher
	// StatusProtocol: the status speaks another protocol version than the source.
	StatusProtocol
	// AttachmentProtocol: the attachment speaks another protocol version than the source.
	AttachmentProtocol
	// AttachmentIngress: source and attachment name different ingress protocols.
	AttachmentIngress
	// AttachmentRank: the attached worker has another rank than the source's global rank.
	AttachmentRank
	// SourceEventTopic: the source does not publish on [EventTopic].
	SourceEventTopic
	// AttachmentControlTarget: source and attachment name different control targets.
	AttachmentControlTarget
	// StatusDetached: the agent sees no attachment.
	StatusDetached
	// StatusGeneration: the agent sees another generation than the record's.
	StatusGeneration
	// StatusWorker: the agent sees another worker than the record's.
	StatusWorker
	// StatusBarrier: the agent's barrier is not the record's.
	StatusBarrier
	// StatusNotReady: the agent says that its attachment is not ready.
	StatusNotReady
)

// String returns the comparison in snake_case.
func (m Mismatch) String() string { return enumString(mismatches, m) }
