package simworker

import (
	"fmt"

	"mooring/kvstate"
)

// answer answers one question about the agent's state.
func (a *agent) answer(q *kvstate.QueryRequest) kvstate.QueryResponse {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.Kind.Op != kvstate.QueryRecovery && q.Kind.Expected != a.identity {
		return refused("another agent is expected: this one is publisher %d of %s", a.identity.PublisherID, a.identity.CacheOwnerID)
	}
	at := a.mu.attachment
	wanted := q.Kind.ExpectedAttachmentGeneration
	if wanted != nil && (at == nil || at.Generation != *wanted) {
		return refused("attachment generation %d is expected, and is not the present one", *wanted)
	}
	switch q.Kind.Op {
	case kvstate.QueryStatus:
		return a.statusLocked()
	case kvstate.QueryStateAgentRecovery:
		if wanted == nil {
			return a.ownerRecoveryLocked(q)
		}
	}
	if at == nil || !at.Ready || at.Worker != (kvstate.Worker{WorkerID: q.WorkerID, DPRank: q.DPRank}) {
		return refused("worker %d, rank %d is not attached and ready", q.WorkerID, q.DPRank)
	}
	if q.Kind.Op == kvstate.QueryRecovery { // by a router that knows nothing of agents
		return a.stateLocked(q, true, false)
	}
	return a.receiptedLocked(a.stateLocked(q, true, true), wanted)
}

func (a *agent) statusLocked() kvstate.QueryResponse {
	s := &kvstate.AgentStatus{
		Identity: a.identity, CacheOwnerReady: true, OutboundCursor: a.visibleLocked(), EventEndpoint: a.publisher.Endpoint(),
	}
	if a.mu.attachment != nil {
		at := *a.mu.attachment
		if a.mu.fault == AgentGeneration {
			at.Generation++
		}
		s.Attachment = &at
	}
	return kvstate.QueryResponse{Status: s}
}

// ownerRecoveryLocked answers with the cache owner's domain alone, which is
// always a full state.
func (a *agent) ownerRecoveryLocked(q *kvstate.QueryRequest) kvstate.QueryResponse {
	if q.DPRank != a.home.DPRank {
		return refused("rank %d is asked, this is rank %d", q.DPRank, a.home.DPRank)
	}
	if q.StartEventID != nil {
		return refused("a cache owner is recovered as a whole, not by a range")
	}
	return a.receiptedLocked(a.stateLocked(q, false, true), nil)
}

// stateLocked answers with the events of a range, or with a full state if there
// is no range or it is not kept any more.
func (a *agent) stateLocked(q *kvstate.QueryRequest, worker, owner bool) kvstate.QueryResponse {
	last := a.visibleLocked()
	if q.StartEventID == nil {
		return kvstate.QueryResponse{TreeDump: a.dumpLocked(last, worker, owner)}
	}
	start, end := *q.StartEventID, last
	if q.EndEventID != nil {
		end = *q.EndEventID
	}
	kept := a.mu.ring[max(0, len(a.mu.ring)-a.cfg.Buffer):]
	switch {
	case q.EndEventID != nil && end < start:
		return kvstate.QueryResponse{InvalidRange: &kvstate.InvalidRangeReply{StartID: start, EndID: end}}
	case start > last:
		return kvstate.QueryResponse{TooNew: &kvstate.TooNewReply{RequestedStart: q.StartEventID, RequestedEnd: q.EndEventID, NewestAvailable: last}}
	case start == 0 || len(kept) == 0 || start < kept[0].EventID:
		return kvstate.QueryResponse{TreeDump: a.dumpLocked(last, worker, owner)}
	}
	end = min(end, last)
	reply := &kvstate.EventsReply{LastEventID: end}
	for _, e := range kept {
		if e.EventID >= start && e.EventID <= end && (e.Tier == kvstate.HostPinned && owner || e.Tier == kvstate.Device && worker) {
			reply.Events = append(reply.Events, e)
		}
	}
	return kvstate.QueryResponse{Events: reply}
}

// dumpLocked returns all that is held. Its events have the id of the last one.
func (a *agent) dumpLocked(last uint64, worker, owner bool) *kvstate.TreeDumpReply {
	reply := &kvstate.TreeDumpReply{Events: []kvstate.RouterEvent{}, LastEventID: last}
	add := func(r *residency, e kvstate.RouterEvent) {
		e.EventID, e.Kind, e.StateSource = last, kvstate.Stored, &a.identity.CacheOwnerID
		for _, e.Store = range r.dump() {
			reply.Events = append(reply.Events, e)
		}
	}
	if worker {
		w := a.mu.attachment.Worker
		add(&a.mu.worker, kvstate.RouterEvent{
			WorkerID: w.WorkerID, DPRank: w.DPRank, Tier: kvstate.Device, Domain: kvstate.InDomain(kvstate.WorkerDomain),
		})
	} else {
		reply.ResetScope = kvstate.ResetScope{Limited: true, Domain: kvstate.CacheOwnerDomain}
	}
	if owner {
		add(&a.mu.owner, kvstate.RouterEvent{Tier: kvstate.HostPinned, Domain: kvstate.InDomain(kvstate.CacheOwnerDomain)})
	}
	return reply
}

// receiptedLocked adds the proof to a recovery.
func (a *agent) receiptedLocked(r kvstate.QueryResponse, generation *uint64) kvstate.QueryResponse {
	receipt := kvstate.RecoveryReceipt{Identity: a.identity, AttachmentGeneration: generation, RecoveredThroughCursor: a.visibleLocked()}
	if r.Events != nil {
		receipt.RecoveredThroughCursor = r.Events.LastEventID
	}
	switch a.mu.fault {
	case AgentIdentity:
		receipt.Identity.PublisherID++
	case AgentGeneration:
		if generation != nil {
			other := *generation + 1
			receipt.AttachmentGeneration = &other
		}
	}
	return kvstate.QueryResponse{StateAgentRecovery: &kvstate.StateAgentRecoveryReply{Response: r, Receipt: receipt}}
}

// visibleLocked returns the last event that the agent lets anybody know of.
func (a *agent) visibleLocked() uint64 {
	if a.mu.fault == AgentBehind && a.mu.attachment != nil {
		return min(a.mu.cursor, a.mu.attachment.ReadyAtOutboundCursor-1)
	}
	return a.mu.cursor
}

func refused(format string, args ...any) kvstate.QueryResponse {
	message := fmt.Sprintf(format, args...)
	return kvstate.QueryResponse{Error: &message}
}
