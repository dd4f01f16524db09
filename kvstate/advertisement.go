package kvstate

// RouterHintSource tells a target where it may pull blocks from. It is advice:
// nothing probes it.
type RouterHintSource struct {
	SourceControlEndpoint string `json:"source_control_endpoint"`
	WorkerType            string `json:"worker_type"`
}

// SourceAdvertisement says that a state agent publishes the events of one cache
// owner. It is a record on [SourceTopic] whose id is PublisherID; it is never
// changed, and is no proof of life.
type SourceAdvertisement struct {
	CacheOwnerID          CacheOwnerID      `json:"cache_owner_id"`
	GlobalDPRank          uint32            `json:"global_dp_rank"`
	KVStateEndpoint       EndpointID        `json:"kv_state_endpoint"`
	IndexerDomainID       IndexerDomainID   `json:"indexer_domain_id"`
	KVBlockSize           uint32            `json:"kv_block_size"` // tokens
	IngressProtocol       IngressProtocol   `json:"ingress_protocol"`
	PublisherID           uint64            `json:"publisher_id"` // of this incarnation of the agent
	ProtocolVersion       ProtocolVersion   `json:"protocol_version"`
	EventTopic            string            `json:"event_topic"`
	RecoveryControlTarget Instance          `json:"recovery_control_target"`
	RouterHintSource      *RouterHintSource `json:"router_hint_source,omitzero"`
}

// AttachmentAdvertisement says that an engine is attached to a cache owner's
// agent. It is a record on [AttachmentTopic] whose id is [AttachmentRecordID] of
// PublisherID and AttachmentGeneration; it is never changed.
type AttachmentAdvertisement struct {
	CacheOwnerID          CacheOwnerID    `json:"cache_owner_id"`
	PublisherID           uint64          `json:"publisher_id"` // the source's
	ProtocolVersion       ProtocolVersion `json:"protocol_version"`
	RecoveryControlTarget Instance        `json:"recovery_control_target"`
	AttachmentGeneration  uint64          `json:"attachment_generation"` // 1, 2, ... for one publisher
	ProducerInstance      Instance        `json:"producer_instance"`
	IntentIncarnation     uint64          `json:"intent_incarnation"`
	Worker                Worker          `json:"worker"`
	IngressProtocol       IngressProtocol `json:"ingress_protocol"`
	RawZMQEndpoint        string          `json:"raw_zmq_endpoint"`
	RawTopic              string          `json:"raw_topic"`
	// ReadyAtOutboundCursor is the barrier: the id of the event that cleared the
	// worker domain for this attachment. Whoever has not seen it may still hold
	// the blocks of an earlier engine.
	ReadyAtOutboundCursor uint64 `json:"ready_at_outbound_cursor"`
}
