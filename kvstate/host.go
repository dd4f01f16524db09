package kvstate

import "github.com/go-json-experiment/json"

// HostAdvertisement says that a process runs state agents. It is a record on
// [HostTopic].
type HostAdvertisement struct {
	ProtocolVersion ProtocolVersion `json:"protocol_version"`
	HostInstance    Instance        `json:"host_instance"`
	ControlTarget   Instance        `json:"control_target"`
	MaxSlots        uint64          `json:"max_slots"`
}

// AttachmentIntent is an engine's wish to have its raw stream attached to a slot
// of a host. It is a record on [AttachmentIntentTopic] whose id is
// IntentIncarnation.
type AttachmentIntent struct {
	TargetHost        Instance          `json:"target_host"`
	ProducerInstance  Instance          `json:"producer_instance"`
	IntentIncarnation uint64            `json:"intent_incarnation"`
	CacheOwnerID      CacheOwnerID      `json:"cache_owner_id"`
	Worker            Worker            `json:"worker"`
	KVStateEndpoint   EndpointID        `json:"kv_state_endpoint"`
	IndexerDomainID   IndexerDomainID   `json:"indexer_domain_id"`
	KVBlockSize       uint32            `json:"kv_block_size"` // tokens
	IngressProtocol   IngressProtocol   `json:"ingress_protocol"`
	RawZMQEndpoint    string            `json:"raw_zmq_endpoint"`
	RawTopic          string            `json:"raw_topic"`
	ImageTokenID      *uint32           `json:"image_token_id,omitzero"`
	VideoTokenID      *uint32           `json:"video_token_id,omitzero"`
	RouterHintSource  *RouterHintSource `json:"router_hint_source,omitzero"`
}

// HostControlRequest is what a host can be asked. On the wire: "status".
type HostControlRequest uint8

// HostStatusRequest asks for a [HostStatus].
const HostStatusRequest HostControlRequest = 1

// String returns the wire name.
func (r HostControlRequest) String() string { return enumString(hostRequests, r) }

// MarshalText writes the wire name; an unknown value is an error.
func (r HostControlRequest) MarshalText() ([]byte, error) { return enumText(hostRequests, r) }

// UnmarshalJSON reads the wire name; an unknown one is an error, and so is null,
// which UnmarshalText would not be asked about.
func (r *HostControlRequest) UnmarshalJSON(b []byte) error {
	var name string
	if err := json.Unmarshal(b, &name); err != nil {
		return err
	}
	return enumParse(hostRequests, name, r)
}

// HostStatus is a host's answer: its slots by state.
type HostStatus struct {
	Healthy               bool   `json:"healthy"`
	TotalSlots            uint64 `json:"total_slots"`
	ActiveSlots           uint64 `json:"active_slots"`
	DetachedSlots         uint64 `json:"detached_slots"`
	FailedSlots           uint64 `json:"failed_slots"`
	CapacityRejectedTotal uint64 `json:"capacity_rejected_total"`
	Error                 string `json:"error,omitzero"` // "" is absent
}
