package kvstate

// AgentIdentity is who a state agent says it is. Comparable with ==.
type AgentIdentity struct {
	CacheOwnerID    CacheOwnerID    `json:"cache_owner_id"`
	PublisherID     uint64          `json:"publisher_id"`
	ProtocolVersion ProtocolVersion `json:"protocol_version"`
}

// AttachmentStatus is the engine attachment that a state agent sees now.
type AttachmentStatus struct {
	Generation            uint64 `json:"generation"`
	Worker                Worker `json:"worker"`
	Ready                 bool   `json:"ready"`
	ReadyAtOutboundCursor uint64 `json:"ready_at_outbound_cursor"`
}

// AgentStatus is a state agent's answer to a status query.
type AgentStatus struct {
	Identity   AgentIdentity     `json:"identity"`
	Attachment *AttachmentStatus `json:"attachment,omitzero"` // nil: no engine attached
	// CacheOwnerReady turns false, for good, once the agent is unsure of its
	// cache-owner state.
	CacheOwnerReady bool   `json:"cache_owner_ready"`
	OutboundCursor  uint64 `json:"outbound_cursor"` // id of the last event published
	// EventEndpoint is Mooring's addition for targets reached by HTTP: the ZMQ
	// address of the PUB socket with the agent's live events. "" is absent.
	EventEndpoint string `json:"event_endpoint,omitzero"`
}

// RecoveryReceipt proves that a recovery came from one exact agent.
type RecoveryReceipt struct {
	Identity AgentIdentity `json:"identity"`
	// AttachmentGeneration is set if the recovery held worker-domain data, and nil
	// for one of the cache owner alone.
	AttachmentGeneration   *uint64 `json:"attachment_generation,omitzero"`
	RecoveredThroughCursor uint64  `json:"recovered_through_cursor"`
}
