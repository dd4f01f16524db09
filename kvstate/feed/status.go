package feed

import (
	"errors"
	"fmt"

	"mooring/kvstate"
)

// ErrDisconnected is the answer of Status while there is no connection to the
// engine.
var ErrDisconnected = errors.New("feed is not connected to the engine")

// State is what a feed is doing.
type State uint8

const (
	// Connecting: there is no connection to the engine.
	Connecting State = iota
	// CatchingUp: connected, and batches that were missed may still come, or it
	// is not known whether any were missed.
	CatchingUp
	// Following: every batch is applied as it comes.
	Following
)

// String returns connecting, catching_up or following.
func (s State) String() string {
	switch s {
	case CatchingUp:
		return "catching_up"
	case Following:
		return "following"
	}
	return "connecting"
}

// Details are for operators.
type Details struct {
	State State
	// Holed: the index may hold what the engine does not, or the other way round.
	Holed bool
	// BlockSizeError says what block sizes do not fit; "": they do. No block of
	// the engine gets into the index meanwhile.
	BlockSizeError string
	// PublisherError says whom the engine's topic names instead of the worker; "":
	// nobody. Nothing of the engine is in the index then.
	PublisherError string
	// LinkError says why the engine's publisher has been out of reach for some
	// seconds; "": it has not.
	LinkError string
	// Settled: what was missed before the first connection is there, or will not
	// be soon, because connecting or the replay failed. It stays.
	Settled bool
	// ClearsOften: the engine cleared its cache ten times and more within the
	// second of its last clear.
	ClearsOften bool
	// Generation counts the engine processes seen, from 1; 0: never connected.
	Generation uint64
	// LastSeq is the number of the last batch applied, if Sequenced.
	LastSeq   uint64
	Sequenced bool
	// Batches and Events applied; Gaps that were not repaired, and the batches
	// Missing in them; engine Restarts noticed.
	Batches, Events, Gaps, Missing, Restarts uint64
	// Dropped counts what was not applied, by reason.
	Dropped [NumReasons]uint64
}

// NumReasons is the number of Reasons.
const NumReasons = int(reasons)

// agent is the state that is shown to others. The goroutine of Run has one; a
// copy is published after each step.
type agent struct {
	Details
	Connected       bool
	Cursor, Barrier uint64 // ids of the last event, and of the clear that began this generation
}

// visible is the part whose change is worth telling.
type visible struct {
	state               State
	holed, often        bool
	settled             bool
	blockSize, link     string
	publisher           string
	generation, barrier uint64
}

func (a *agent) visible() visible {
	return visible{a.State, a.Holed, a.ClearsOften, a.Settled, a.BlockSizeError, a.LinkError, a.PublisherError, a.Generation, a.Barrier}
}

// publish shows the state to others, and tells them if it changed.
func (f *Feed) publish() {
	doubtful := f.seq.doubtful()
	switch {
	case !f.agent.Connected:
		f.agent.State = Connecting
	case doubtful:
		f.agent.State = CatchingUp
	default:
		f.agent.State = Following
	}
	f.agent.Settled = f.agent.Settled || f.connection > 0 && !f.seq.repairing
	f.agent.Holed = doubtful || f.lost[kvstate.WorkerDomain] || f.lost[kvstate.CacheOwnerDomain] || f.agent.Generation == 0
	f.counts[MalformedReplay] = f.misshapen.Load()
	for r, n := range f.counts {
		if more := n - f.agent.Dropped[r]; more > 0 {
			f.series.dropped[r].Add(float64(more))
		}
	}
	f.agent.Dropped = f.counts
	f.mu.Lock()
	changed := f.mu.shown.visible() != f.agent.visible()
	f.mu.shown = f.agent
	f.mu.Unlock()
	if changed {
		f.gauge()
		f.cfg.Changed()
	}
}

func (f *Feed) gauge() {
	f.series.connected.Set(flag(f.agent.Connected))
	f.series.holed.Set(flag(f.agent.Holed))
	f.series.wrongBlockSize.Set(flag(f.agent.BlockSizeError != ""))
}

func (f *Feed) shown() agent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.shown
}

// Details returns a snapshot.
func (f *Feed) Details() Details { return f.shown().Details }

// Source returns the feed's advertisement as a state agent. Its block size is
// the configured one, or else what the partition has by now, 0 if none.
func (f *Feed) Source() kvstate.SourceAdvertisement {
	size := f.cfg.BlockSize
	if size == 0 {
		size = f.cfg.Index.BlockSize()
	}
	return kvstate.SourceAdvertisement{
		CacheOwnerID: f.cfg.Owner, GlobalDPRank: f.cfg.Worker.DPRank, KVStateEndpoint: f.cfg.KVStateEndpoint,
		IndexerDomainID: f.cfg.Owner.Pool.IndexerDomain, KVBlockSize: uint32(size),
		IngressProtocol: kvstate.VLLMResidencyV1, PublisherID: f.cfg.PublisherID, ProtocolVersion: kvstate.V2,
		EventTopic: kvstate.EventTopic, RecoveryControlTarget: f.cfg.Control,
	}
}

// Attachment returns the engine's attachment. There is one from the first
// connection on; each restart of the engine makes another, of the next
// generation. While the connection is lost it stays, and Status fails.
func (f *Feed) Attachment() (kvstate.AttachmentAdvertisement, bool) {
	a := f.shown()
	if a.Generation == 0 {
		return kvstate.AttachmentAdvertisement{}, false
	}
	return kvstate.AttachmentAdvertisement{
		CacheOwnerID: f.cfg.Owner, PublisherID: f.cfg.PublisherID, ProtocolVersion: kvstate.V2,
		RecoveryControlTarget: f.cfg.Control, AttachmentGeneration: a.Generation, ProducerInstance: f.cfg.Control,
		IntentIncarnation: a.Generation, Worker: f.cfg.Worker, IngressProtocol: kvstate.VLLMResidencyV1,
		RawZMQEndpoint: f.cfg.Endpoint, RawTopic: f.cfg.Topic, ReadyAtOutboundCursor: a.Barrier,
	}, true
}

// Status answers a status query. It fails with ErrDisconnected.
func (f *Feed) Status() (kvstate.AgentStatus, error) {
	a := f.shown()
	if a.LinkError != "" {
		return kvstate.AgentStatus{}, fmt.Errorf("%w: %s", ErrDisconnected, a.LinkError)
	}
	if !a.Connected {
		return kvstate.AgentStatus{}, ErrDisconnected
	}
	return kvstate.AgentStatus{
		Identity: f.identity(), CacheOwnerReady: true, OutboundCursor: a.Cursor,
		Attachment: &kvstate.AttachmentStatus{Generation: a.Generation, Worker: f.cfg.Worker, Ready: true, ReadyAtOutboundCursor: a.Barrier},
	}, nil
}

// Receipt proves that the index holds what the agent published: the feed writes
// to the index itself, so there is nothing to recover. There is one as soon as
// there is an attachment.
func (f *Feed) Receipt() (kvstate.RecoveryReceipt, bool) {
	a := f.shown()
	if a.Generation == 0 {
		return kvstate.RecoveryReceipt{}, false
	}
	return kvstate.RecoveryReceipt{Identity: f.identity(), AttachmentGeneration: &a.Generation, RecoveredThroughCursor: a.Cursor}, true
}

func (f *Feed) identity() kvstate.AgentIdentity {
	return kvstate.AgentIdentity{CacheOwnerID: f.cfg.Owner, PublisherID: f.cfg.PublisherID, ProtocolVersion: kvstate.V2}
}
