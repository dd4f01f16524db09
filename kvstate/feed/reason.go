package feed

// Reason says why an event, or a whole batch, was not applied. It is a closed
// list, fit to be a metric's label.
type Reason uint8

const (
	// Whole batches.
	MalformedFrames  Reason = iota // not topic, 8-byte sequence, payload
	MalformedBatch                 // the payload is no batch; the index is holed by it
	StaleConnection                // of a connection that was already replaced
	Duplicate                      // the sequence number was applied before
	WaitingOverflow                // did not fit beside a running repair; a gap that a repair may fill
	QueueOverflow                  // came faster than they were applied; a gap that a repair may fill
	ForeignReplay                  // a replayed batch is not the live one of its number, or far from all of them: kv_replay leads elsewhere
	MalformedReplay                // a replay message of another shape
	PublisherUnknown               // topic names another worker

	// Single events.
	Undecodable     // a field has another type than it should, or a hash an unknown form
	TooLarge        // more hashes or tokens than one event may have, or more events than a batch
	UnknownType     // not a type that this decoder knows
	Ignored         // the engine says so itself
	WrongRank       // the batch is of another data-parallel rank
	WrongBlockSize  // not the partition's block size
	WrongTokenCount // tokens and hashes do not fit together
	RepeatedHash    // one hash twice in a store
	SelfParent      // a block that is its own parent
	NonMainKind     // an attention kind that does not hold whole prefixes
	UnknownKind     // an attention kind that is not known
	NonMainGroup    // a group that stores showed to be of such a kind
	UnlearnedGroup  // a group other than 0 of which nothing is known
	NotLocal        // the blocks are elsewhere
	UnknownOwner    // neither the engine's nor kvcr's
	UnknownMedium   // no storage tier has that name
	OwnerMedium     // a kvcr event on a medium it may not be on
	AmbiguousSalt   // its parent was seen under two salts
	UnnamedAdapter  // an adapter known only by number
	IndexRefused    // the index did not take all of it
	reasons         // how many there are: NumReasons
)

var reasonNames = [reasons]string{
	"malformed_frames", "malformed_batch", "stale_connection", "duplicate", "waiting_overflow", "queue_overflow", "foreign_replay", "malformed_replay", "publisher_unknown",
	"undecodable", "too_large", "unknown_type", "ignored", "wrong_rank", "wrong_block_size", "wrong_token_count", "repeated_hash",
	"self_parent", "non_main_kind", "unknown_kind", "non_main_group", "unlearned_group", "not_local", "unknown_owner",
	"unknown_medium", "owner_medium", "ambiguous_salt", "unnamed_adapter", "index_refused",
}

// String returns the reason as a metric's label.
func (r Reason) String() string {
	if r >= reasons {
		return "unknown"
	}
	return reasonNames[r]
}
