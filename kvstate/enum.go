package kvstate

import (
	"fmt"
	"strconv"
	"strings"
)

// enum is the wire names of one closed set of values. names[i] names the value
// first+i. It is read only.
type enum[T ~uint8] struct {
	what  string // what the set is called in errors
	first T
	names []string
}

var (
	identitySources  = enum[IdentitySource]{"identity source", DefaultDerived, []string{"default_derived", "explicit"}}
	tiers            = enum[Tier]{"storage tier", Device, []string{"device", "host_pinned", "disk", "external"}}
	domains          = enum[Domain]{"residency domain", WorkerDomain, []string{"worker", "cache_owner"}}
	protocolVersions = enum[ProtocolVersion]{"protocol version", V2, []string{"v2"}}
	ingressProtocols = enum[IngressProtocol]{"ingress protocol", FrameworkV1, []string{"framework_v1", "vllm_residency_v1"}}
	transportKinds   = enum[TransportKind]{"transport", NATSTCP, []string{"nats_tcp", "http", "tcp"}}
	eventKinds       = enum[EventKind]{"event kind", Stored, []string{"stored", "removed", "cleared"}}
	hostRequests     = enum[HostControlRequest]{"host control request", HostStatusRequest, []string{"status"}}
	states           = enum[State]{"state", Unavailable, []string{"unavailable", "unknown", "ready"}}
	reasons          = enum[Reason]{"reason", WatchUncertain, []string{"watch_uncertain", "no_source", "ambiguous_source", "no_attachment",
		"ambiguous_attachment", "worker_not_live", "endpoint_unreachable", "status_mismatch", "recovery_identity_mismatch", "recovery_behind_barrier"}}
	queryOps   = enum[QueryOp]{"query kind", QueryRecovery, []string{"recovery", "state_agent_recovery", "status"}}
	mismatches = enum[Mismatch]{"mismatch", StatusOwner, []string{"status_owner", "cache_owner_not_ready", "attachment_publisher", "status_publisher",
		"status_protocol", "attachment_protocol", "attachment_ingress", "attachment_rank", "source_event_topic", "attachment_control_target",
		"status_detached", "status_generation", "status_worker", "status_barrier", "status_not_ready"}}
)

func (e enum[T]) name(v T) (string, bool) {
	if v < e.first || int(v-e.first) >= len(e.names) {
		return "", false
	}
	return e.names[v-e.first], true
}

func enumString[T ~uint8](e enum[T], v T) string {
	if s, ok := e.name(v); ok {
		return s
	}
	return "unknown(" + strconv.Itoa(int(v)) + ")"
}

func enumText[T ~uint8](e enum[T], v T) ([]byte, error) {
	s, ok := e.name(v)
	if !ok {
		return nil, fmt.Errorf("%s: no name for value %d", e.what, v)
	}
	return []byte(s), nil
}

func enumParse[T ~uint8, B []byte | string](e enum[T], name B, v *T) error {
	for i, s := range e.names {
		if string(name) == s {
			*v = e.first + T(i)
			return nil
		}
	}
	return fmt.Errorf("%s: unknown value %q, want one of %s", e.what, clip(string(name)), strings.Join(e.names, ", "))
}

// clip bounds what a peer's text can add to an error or a log line.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
