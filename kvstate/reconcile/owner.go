package reconcile

import (
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
)

// owner is one cache owner as the core knows it.
type owner struct {
	id  kvstate.CacheOwnerID
	key kvstate.OwnerKey

	// What discovery says. Every watch names its records by its own ids.
	sources     map[recordKey]kvstate.SourceAdvertisement
	attachments map[recordKey]kvstate.AttachmentAdvertisement

	// What Resolve is given besides.
	status  *kvstate.AgentStatus
	receipt *kvstate.RecoveryReceipt
	holed   bool // a feed says so

	cursor func() uint64 // asks the feed how far it is, of which it tells nobody; nil: there is none

	resolution kvstate.Resolution // as published
	since      time.Time          // when its state, reason and worker came to be
	told       time.Time          // from when on its changes are counted
	changes    int                // since then
	problem    error              // what is wrong with the agent or its state, for people; nil: nothing

	leaving bool  // the feed stops
	opening bool  // the feed has just begun, and is not through with what it missed before
	fed     bool  // a feed in this process writes its blocks and pushes status and receipt
	agent   agent // whom its state comes from, unless fed
	held    held
	until   time.Time // when what is held is cleared, since its publisher was replaced; zero: not
	talk    talk
	tail    tail

	touched bool // settle is to look at it
}

// recordKey names a record.
type recordKey struct {
	watch watch
	id    uint64
}

// agent is a state agent as its source record names it. The zero value is nobody.
type agent struct {
	identity  kvstate.AgentIdentity
	target    kvstate.Instance
	rank      uint32
	blockSize uint32
}

func agentOf(s *kvstate.SourceAdvertisement) agent {
	return agent{
		identity: kvstate.AgentIdentity{CacheOwnerID: s.CacheOwnerID, PublisherID: s.PublisherID, ProtocolVersion: s.ProtocolVersion},
		target:   s.RecoveryControlTarget, rank: s.GlobalDPRank, blockSize: s.KVBlockSize,
	}
}

// held is what the index holds for an owner; where a feed is, it knows itself. The
// zero value is nothing.
type held struct {
	any       bool
	publisher uint64          // whose state it is
	partition fleet.Partition // in whose index
	cursor    uint64          // all events up to here are applied

	engine     bool // an engine's blocks are held too, and its events followed
	worker     kvstate.Worker
	generation uint64
}

// sole returns the only record of m, if there is exactly one.
func sole[R any](m map[recordKey]R) (record R, ok bool) {
	for _, record = range m {
	}
	return record, len(m) == 1
}

// follows reports whether h is the state of this agent's attachment, in the index
// of p, so that later events can be applied to it.
func (h *held) follows(publisher uint64, a *kvstate.AttachmentAdvertisement, p fleet.Partition) bool {
	return h.any && h.engine && h.publisher == publisher && h.generation == a.AttachmentGeneration && h.worker == a.Worker && h.partition == p
}
