package kvstate

import (
	"bytes"
	"fmt"
	"strconv"
)

// The methods here read the contracts as [unmarshalObject] says. The plain types
// drop them, so that the struct itself is read by its tags.

// MarshalJSON writes an array of 16 numbers.
func (d Digest) MarshalJSON() ([]byte, error) { return d.appendJSON(nil), nil }

func (d Digest) appendJSON(b []byte) []byte {
	for i, v := range d {
		b = append(b, "[,"[min(i, 1)])
		b = strconv.AppendUint(b, uint64(v), 10)
	}
	return append(b, ']')
}

// UnmarshalJSON reads an array of exactly 16 numbers from 0 to 255.
func (d *Digest) UnmarshalJSON(b []byte) error {
	r := newEventReader(bytes.NewBuffer(b))
	var numbers [len(d)]uint64
	if err := r.numbers(numbers[:]); err != nil {
		return fmt.Errorf("digest: %w", err)
	}
	for i, v := range numbers {
		if v > 255 {
			return fmt.Errorf("digest: %d is no byte", v)
		}
		d[i] = byte(v)
	}
	return nil
}

// UnmarshalJSON requires both fields.
func (id *CacheSemanticsID) UnmarshalJSON(b []byte) error {
	type plain CacheSemanticsID
	return unmarshalObject(b, (*plain)(id), "digest", "source")
}

// UnmarshalJSON requires both fields.
func (id *RoutingScopeID) UnmarshalJSON(b []byte) error {
	type plain RoutingScopeID
	return unmarshalObject(b, (*plain)(id), "digest", "source")
}

// UnmarshalJSON requires both fields.
func (id *StableDPSlotID) UnmarshalJSON(b []byte) error {
	type plain StableDPSlotID
	return unmarshalObject(b, (*plain)(id), "digest", "source")
}

// UnmarshalJSON requires both fields.
func (id *IndexerDomainID) UnmarshalJSON(b []byte) error {
	type plain IndexerDomainID
	return unmarshalObject(b, (*plain)(id), "cache_semantics", "routing_scope")
}

// UnmarshalJSON requires both fields.
func (id *PoolID) UnmarshalJSON(b []byte) error {
	type plain PoolID
	return unmarshalObject(b, (*plain)(id), "indexer_domain", "dc_id")
}

// UnmarshalJSON requires both fields.
func (id *CacheOwnerID) UnmarshalJSON(b []byte) error {
	type plain CacheOwnerID
	return unmarshalObject(b, (*plain)(id), "pool", "slot")
}

// UnmarshalJSON requires both fields.
func (w *Worker) UnmarshalJSON(b []byte) error {
	type plain Worker
	return unmarshalObject(b, (*plain)(w), "worker_id", "dp_rank")
}

// UnmarshalJSON requires both fields.
func (s *RouterHintSource) UnmarshalJSON(b []byte) error {
	type plain RouterHintSource
	return unmarshalObject(b, (*plain)(s), "source_control_endpoint", "worker_type")
}

// UnmarshalJSON requires all fields but router_hint_source.
func (a *SourceAdvertisement) UnmarshalJSON(b []byte) error {
	type plain SourceAdvertisement
	return unmarshalObject(b, (*plain)(a), "cache_owner_id", "global_dp_rank", "kv_state_endpoint", "indexer_domain_id", "kv_block_size",
		"ingress_protocol", "publisher_id", "protocol_version", "event_topic", "recovery_control_target")
}

// UnmarshalJSON requires all fields.
func (a *AttachmentAdvertisement) UnmarshalJSON(b []byte) error {
	type plain AttachmentAdvertisement
	return unmarshalObject(b, (*plain)(a), "cache_owner_id", "publisher_id", "protocol_version", "recovery_control_target",
		"attachment_generation", "producer_instance", "intent_incarnation", "worker", "ingress_protocol", "raw_zmq_endpoint",
		"raw_topic", "ready_at_outbound_cursor")
}

// UnmarshalJSON requires all fields.
func (a *HostAdvertisement) UnmarshalJSON(b []byte) error {
	type plain HostAdvertisement
	return unmarshalObject(b, (*plain)(a), "protocol_version", "host_instance", "control_target", "max_slots")
}

// UnmarshalJSON requires all fields but the token ids and router_hint_source.
func (i *AttachmentIntent) UnmarshalJSON(b []byte) error {
	type plain AttachmentIntent
	return unmarshalObject(b, (*plain)(i), "target_host", "producer_instance", "intent_incarnation", "cache_owner_id", "worker",
		"kv_state_endpoint", "indexer_domain_id", "kv_block_size", "ingress_protocol", "raw_zmq_endpoint", "raw_topic")
}

// UnmarshalJSON requires all fields but error.
func (s *HostStatus) UnmarshalJSON(b []byte) error {
	type plain HostStatus
	return unmarshalObject(b, (*plain)(s), "healthy", "total_slots", "active_slots", "detached_slots", "failed_slots", "capacity_rejected_total")
}

// UnmarshalJSON requires all fields.
func (id *AgentIdentity) UnmarshalJSON(b []byte) error {
	type plain AgentIdentity
	return unmarshalObject(b, (*plain)(id), "cache_owner_id", "publisher_id", "protocol_version")
}

// UnmarshalJSON requires all fields.
func (s *AttachmentStatus) UnmarshalJSON(b []byte) error {
	type plain AttachmentStatus
	return unmarshalObject(b, (*plain)(s), "generation", "worker", "ready", "ready_at_outbound_cursor")
}

// UnmarshalJSON requires all fields but attachment and event_endpoint.
func (s *AgentStatus) UnmarshalJSON(b []byte) error {
	type plain AgentStatus
	return unmarshalObject(b, (*plain)(s), "identity", "cache_owner_ready", "outbound_cursor")
}

// UnmarshalJSON requires all fields but attachment_generation.
func (r *RecoveryReceipt) UnmarshalJSON(b []byte) error {
	type plain RecoveryReceipt
	return unmarshalObject(b, (*plain)(r), "identity", "recovered_through_cursor")
}
