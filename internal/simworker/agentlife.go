package simworker

import (
	"context"
	"errors"
	"fmt"
	"net"

	"mooring/internal/zmqsock"
	"mooring/kvstate"
)

var (
	errAttached = errors.New("an engine is attached already")
	errDetached = errors.New("no engine is attached")
)

// open binds the socket of the live events on the host of the worker's
// listener, takes over the records of the cache owner, advertises the source,
// and attaches the engine of this process. The sockets close with ctx.
func (a *agent) open(ctx context.Context, listener net.Addr, raw string) error {
	host, _, err := net.SplitHostPort(listener.String())
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		return fmt.Errorf("state agent: the worker must listen on an address that others can be told, not %s", listener)
	}
	a.publisher, err = zmqsock.Listen(ctx, zmqsock.PublisherConfig{Endpoint: "tcp://" + net.JoinHostPort(host, "0"), Logger: a.logger})
	if err != nil {
		return err
	}
	a.raw = raw
	a.control = kvstate.Instance{
		Component: "kv_state_agent", Endpoint: fmt.Sprintf("worker_kv_query_source_%x", a.identity.PublisherID), Namespace: "mooring",
		InstanceID: a.identity.PublisherID,
		Transport:  kvstate.Transport{Kind: kvstate.HTTP, Address: fmt.Sprintf("http://%s%s%d", listener, controlPath, a.home.DPRank)},
	}
	if err := a.records.evict(a.identity.CacheOwnerID); err != nil {
		return fmt.Errorf("take over records: %w", err)
	}
	if err := a.records.write(kvstate.SourceTopic, a.identity.PublisherID, a.source()); err != nil {
		return fmt.Errorf("advertise the source: %w", err)
	}
	return a.attach(a.home)
}

// close withdraws what is advertised and ends the socket.
func (a *agent) close() {
	if a.publisher == nil {
		return
	}
	if err := a.beginDetach(); err != nil && !errors.Is(err, errDetached) {
		a.logger.Warn("withdraw the attachment", "err", err)
	}
	if err := a.records.remove(kvstate.SourceTopic, a.identity.PublisherID); err != nil {
		a.logger.Warn("withdraw the source", "err", err)
	}
	a.publisher.Close()
}

// source is the record that says this agent exists.
func (a *agent) source() kvstate.SourceAdvertisement {
	return kvstate.SourceAdvertisement{
		CacheOwnerID: a.identity.CacheOwnerID, GlobalDPRank: a.home.DPRank, KVStateEndpoint: servingEndpoint(),
		IndexerDomainID: a.identity.CacheOwnerID.Pool.IndexerDomain, KVBlockSize: uint32(a.blockSize),
		IngressProtocol: kvstate.VLLMResidencyV1, PublisherID: a.identity.PublisherID, ProtocolVersion: kvstate.V2,
		EventTopic: kvstate.EventTopic, RecoveryControlTarget: a.control,
	}
}

// attach makes w the engine behind the cache owner: the next generation, and a
// worker domain that is cleared, by the event that is the barrier. An error
// leaves nothing attached.
func (a *agent) attach(w kvstate.Worker) error {
	a.mu.Lock()
	if a.mu.attachment != nil {
		a.mu.Unlock()
		return errAttached
	}
	a.mu.generation++
	barrier := a.emitLocked(a.cleared(w))
	at := kvstate.AttachmentStatus{Generation: a.mu.generation, Worker: w, Ready: true, ReadyAtOutboundCursor: barrier.EventID}
	a.mu.attachment = &at
	a.mu.Unlock()
	a.publish([]kvstate.RouterEvent{barrier})
	id := kvstate.AttachmentRecordID(a.identity.PublisherID, at.Generation)
	if err := a.records.write(kvstate.AttachmentTopic, id, a.advertisement(&at)); err != nil {
		a.endDetach()
		return fmt.Errorf("advertise the attachment: %w", err)
	}
	return nil
}

// advertisement is the record that says which engine is attached. The engine is
// the worker itself, so it has no intent record of its own.
func (a *agent) advertisement(at *kvstate.AttachmentStatus) kvstate.AttachmentAdvertisement {
	producer := a.control
	producer.Component, producer.InstanceID = "simworker", at.Worker.WorkerID
	return kvstate.AttachmentAdvertisement{
		CacheOwnerID: a.identity.CacheOwnerID, PublisherID: a.identity.PublisherID, ProtocolVersion: kvstate.V2,
		RecoveryControlTarget: a.control, AttachmentGeneration: at.Generation, ProducerInstance: producer,
		IntentIncarnation: kvstate.AttachmentRecordID(a.identity.PublisherID, at.Generation), Worker: at.Worker,
		IngressProtocol: kvstate.VLLMResidencyV1, RawZMQEndpoint: a.raw, ReadyAtOutboundCursor: at.ReadyAtOutboundCursor,
	}
}

// beginDetach ends the part of the attached engine: it is not ready any more,
// nothing it does counts, and its record is withdrawn.
func (a *agent) beginDetach() error {
	a.mu.Lock()
	if a.mu.attachment == nil {
		a.mu.Unlock()
		return errDetached
	}
	at := *a.mu.attachment // a value that was given out does not change
	at.Ready = false
	a.mu.attachment = &at
	a.mu.Unlock()
	return a.records.remove(kvstate.AttachmentTopic, kvstate.AttachmentRecordID(a.identity.PublisherID, at.Generation))
}

// endDetach clears the worker domain and forgets the engine.
func (a *agent) endDetach() {
	a.mu.Lock()
	if a.mu.attachment == nil {
		a.mu.Unlock()
		return
	}
	last := a.emitLocked(a.cleared(a.mu.attachment.Worker))
	a.mu.attachment = nil
	a.mu.Unlock()
	a.publish([]kvstate.RouterEvent{last})
}

// attached reports whether an engine is.
func (a *agent) attached() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.attachment != nil
}

// late reports whether answers are to be late.
func (a *agent) late() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.fault == AgentLate
}

// setFault changes what is wrong with the agent.
func (a *agent) setFault(f AgentFault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.fault = f
}

// cleared is the event that empties the worker domain of w.
func (a *agent) cleared(w kvstate.Worker) kvstate.RouterEvent {
	return kvstate.RouterEvent{
		WorkerID: w.WorkerID, DPRank: w.DPRank, Tier: kvstate.Device, Domain: kvstate.InDomain(kvstate.WorkerDomain),
		Kind: kvstate.Cleared, StateSource: &a.identity.CacheOwnerID,
	}
}
