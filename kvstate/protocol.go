package kvstate

// Topics of protocol v2: where each kind of record or event is found.
const (
	HostTopic             = "kv-state-hosts-v2"
	AttachmentIntentTopic = "kv-state-attachment-intents-v2"
	SourceTopic           = "kv-state-sources-v2"
	AttachmentTopic       = "kv-state-attachments-v2"
	EventTopic            = "kv-state-events-v2"
)

// ProtocolVersion is the version of the discovery, recovery and event protocol.
// It never changes while a publisher lives. The zero value is none.
type ProtocolVersion uint8

// V2 is the only version; "v2" on the wire.
const V2 ProtocolVersion = 2

// String returns the wire name.
func (v ProtocolVersion) String() string { return enumString(protocolVersions, v) }

// MarshalText writes the wire name; an unknown value is an error.
func (v ProtocolVersion) MarshalText() ([]byte, error) { return enumText(protocolVersions, v) }

// UnmarshalText reads the wire name; an unknown one is an error.
func (v *ProtocolVersion) UnmarshalText(b []byte) error { return enumParse(protocolVersions, b, v) }

// IngressProtocol is the contract of the raw stream between an engine and its
// state agent. The zero value is none.
type IngressProtocol uint8

const (
	// FrameworkV1 is reserved: a known wire value that no agent accepts.
	FrameworkV1 IngressProtocol = iota + 1
	// VLLMResidencyV1 is vLLM's event stream with ownership.
	VLLMResidencyV1
)

// String returns the wire name: framework_v1 or vllm_residency_v1.
func (p IngressProtocol) String() string { return enumString(ingressProtocols, p) }

// MarshalText writes the wire name; an unknown value is an error.
func (p IngressProtocol) MarshalText() ([]byte, error) { return enumText(ingressProtocols, p) }

// UnmarshalText reads the wire name; an unknown one is an error.
func (p *IngressProtocol) UnmarshalText(b []byte) error { return enumParse(ingressProtocols, b, p) }
