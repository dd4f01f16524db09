package kvstate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"mooring/kvstate"
)

// TestJSONRefusals: what must not be guessed at, and the word by which the error
// points at it.
func TestJSONRefusals(t *testing.T) {
	text := func(v any) string { return string(encode(t, v)) }
	swap := func(v any, old, new string) string { return strings.Replace(text(v), old, new, 1) }
	for _, row := range []struct {
		into any
		text string
		want string
	}{
		{new(kvstate.SourceAdvertisement), swap(source(), `"vllm_residency_v1"`, `"vllm_residency_v9"`), "ingress_protocol"},
		{new(kvstate.SourceAdvertisement), swap(source(), `"protocol_version":"v2"`, `"protocol_version":"v3"`), "protocol_version"},
		{new(kvstate.SourceAdvertisement), swap(source(), `"source":"explicit"`, `"source":"guessed"`), "source"},
		{new(kvstate.SourceAdvertisement), swap(source(), `{"tcp":`, `{"quic":`), "transport"},
		{new(kvstate.SourceAdvertisement), swap(source(), `{"tcp":`, `{"http":"x","tcp":`), "transport"},
		{new(kvstate.SourceAdvertisement), swap(source(), `{"tcp":"tcp://127.0.0.1:1234"}`, `{}`), "transport"},
		{new(kvstate.SourceAdvertisement), swap(source(), `{"tcp":"tcp://127.0.0.1:1234"}`, `{"tcp":null}`), "transport"},
		{new(kvstate.SourceAdvertisement), swap(source(), `[1,1,`, `[1,1,1,`), "digest"},
		{new(kvstate.SourceAdvertisement), swap(source(), `[1,1,`, `[1,256,`), "digest"},
		{new(kvstate.SourceAdvertisement), swap(source(), `[1,1,`, `[1,-1,`), "digest"},
		{new(kvstate.SourceAdvertisement), swap(source(), `[1,1,`, `[null,1,`), "digest"},
		{new(kvstate.SourceAdvertisement), swap(source(), `"publisher_id":41`, `"publisher_id":4.1e1`), "publisher_id"},
		{new(kvstate.SourceAdvertisement), swap(source(), `"publisher_id":41`, `"publisher_id":"41"`), "publisher_id"},
		{new(kvstate.SourceAdvertisement), swap(source(), `"publisher_id":41`, `"publisher_id":null`), "publisher_id"},
		{new(kvstate.SourceAdvertisement), swap(source(), `"publisher_id":41`, `"publisher_id":18446744073709551616`), "publisher_id"},
		{new(kvstate.SourceAdvertisement), swap(source(), `"global_dp_rank":3`, `"global_dp_rank":4294967296`), "global_dp_rank"},
		{new(kvstate.EndpointID), `"ns.worker"`, "endpoint"},
		{new(kvstate.EndpointID), `"ns..generate"`, "endpoint"},
		{new(kvstate.HostControlRequest), `"stop"`, "host control request"},
		{new(kvstate.HostControlRequest), `null`, "host control request"},
		{new(kvstate.QueryRequest), `{"worker_id":1,"dp_rank":0,"kind":"status"}`, "kind"},
		{new(kvstate.QueryRequest), `{"worker_id":1,"dp_rank":0,"kind":{"recovery":{}}}`, "kind"},
		{new(kvstate.QueryRequest), `{"worker_id":1,"dp_rank":0,"kind":{"status":{}}}`, "expected"},
		{new(kvstate.QueryRequest), `{"worker_id":1,"dp_rank":0,"kind":{}}`, "kind"},
		{new(kvstate.QueryRequest), `{"worker_id":1,"dp_rank":0,"kind":null}`, "kind"},
		{new(kvstate.QueryResponse), `{}`, "0 variants"},
		{new(kvstate.QueryResponse), `{"Error":"a","Status":` + text(status()) + `}`, "2 variants"},
		{new(kvstate.QueryResponse), `{"error":"a"}`, "error"},
		{new(kvstate.QueryResponse), `{"TreeDump":{"events":[],"last_event_id":1,"reset_scope":"some"}}`, "reset scope"},
		{new(kvstate.QueryResponse), `{"TreeDump":{"events":[],"last_event_id":1,"reset_scope":{"domain":"pool"}}}`, "residency domain"},
		{new(kvstate.QueryResponse), `{"TreeDump":{"events":[],"last_event_id":1,"reset_scope":{"tier":"disk"}}}`, "reset scope"},
		{new(kvstate.QueryResponse), `{"TreeDump":{"events":[],"last_event_id":1,"reset_scope":{"domain":null}}}`, "domain"},
		{new(kvstate.QueryResponse), `{"TreeDump":{"events":[]}}`, "last_event_id"},
		{new(kvstate.QueryResponse), `{"Events":{"last_event_id":1}}`, "events"},
		{new(kvstate.QueryResponse), `{"StateAgentRecovery":{"receipt":` + text(receipt()) + `,"response":{"StateAgentRecovery":{}}}}`, "inside"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `"host_pinned"`, `"l2"`), "storage tier"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `"cache_owner"`, `null`), "residency_domain"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `"cache_owner"`, `7`), "residency_domain"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `"stored"`, `"moved"`), "event kind"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `"block_hash":1,`, ``), "block_hash"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `"dp_rank":3`, `"dp_rank":4294967296`), "dp_rank"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `[[0,3]]`, `null`), "offsets"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `[[0,3]]`, `[null]`), "offsets"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `[[0,3]]`, `[[0,null]]`), "offsets"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `[[0,3]]`, `[[0]]`), "offsets"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `[[0,3]]`, `[[0,3,4]]`), "offsets"},
		{new(kvstate.QueryResponse), `{"Error":"a","Error":"b"}`, "2 variants"},
		{new(kvstate.QueryResponse), `{"Error":"a","future":null}`, "future"},
		{new(kvstate.QueryResponse), `{"Events":{"events":[],"last_event_id":1},"TreeDump":{"events":[],"last_event_id":1}}`, "2 variants"},
		{new(kvstate.QueryResponse), `{"TreeDump":{"events":[],"last_event_id":1,"reset_scope":"all","reset_scope":"all"}}`, "reset_scope: it is there twice"},
		{new(kvstate.QueryResponse), `{"TreeDump":{"events":[],"last_event_id":1,"reset_scope":{"domain":"worker","domain":"worker"}}}`, "reset_scope"},
		{new(kvstate.QueryResponse), `{"StateAgentRecovery":{"receipt":null,"response":{"Error":"a"}}}`, "receipt"},
		{new(kvstate.QueryResponse), `{"StateAgentRecovery":{"receipt":` + text(receipt()) + `,"response":null}}`, "response"},
		{new(kvstate.QueryResponse), `{"StateAgentRecovery":{"receipt":` + text(receipt()) + `,"response":{}}}`, "0 variants"},
		{new(kvstate.QueryResponse), `{"StateAgentRecovery":{"response":{"Error":"a"},"response":{"Error":"a"},"receipt":` + text(receipt()) + `}}`, "twice"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `"dp_rank":3`, `"dp_rank":3,"dp_rank":3`), "twice"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `"block_hash":1,`, `"block_hash":1,"\u0062lock_hash":1,`), "twice"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `"blocks":[`, `"blocks":[],"blocks":[`), "twice"},
		{new(kvstate.RouterEvent), swap(storeEvent(), `"offsets":`, `"offsets":[],"offsets":`), "twice"},
		{new(kvstate.RouterEvent), swap(clearEvent(), `"cleared"`, `{"removed":{"block_hashes":[],"block_hashes":[]}}`), "twice"},
		{new(kvstate.RouterEvent), swap(clearEvent(), `"cleared"`, `"stored"`), "event data"},
		{new(kvstate.RouterEvent), swap(clearEvent(), `"cleared"`, `{"cleared":{}}`), "event data"},
		{new(kvstate.RouterEvent), swap(clearEvent(), `"cleared"`, `{}`), "event data"},
		{new(kvstate.RouterEvent), swap(clearEvent(), `"cleared"`, `{"removed":{"block_hashes":[]},"stored":{"blocks":[]}}`), "beside"},
	} {
		if err := json.Unmarshal([]byte(row.text), row.into); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%T %.200s\n  %v, want an error with %q", row.into, row.text, err, row.want)
		}
	}
}

// TestErrorsAreShort: a peer does not choose how much is logged.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	var e kvstate.RouterEvent
	err := json.Unmarshal([]byte(`{"worker_id":1,"storage_tier":"`+long+`"}`), &e)
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("JSON: %.400v", err)
	}
	batch, err := kvstate.DecodeEvents(msgp.AppendString([]byte("\x91\x81\xacstorage_tier"), long))
	if err != nil || batch.Why == nil || len(batch.Why.Error()) > 300 {
		t.Errorf("MessagePack: %v, %.400v", err, batch.Why)
	}
}

func TestEndpointIDForms(t *testing.T) {
	want := kvstate.EndpointID{Namespace: "ns", Component: "worker", Name: "generate"}
	for _, text := range []string{`"ns.worker.generate"`, `"ns/worker/generate"`, `{"name":"generate","component":"worker","namespace":"ns"}`} {
		var got kvstate.EndpointID
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if want.String() != "ns/worker/generate" {
		t.Error(want.String())
	}
}

// TestNamelessValuesAreNotWritten: a value outside its set is never put on the wire.
func TestNamelessValuesAreNotWritten(t *testing.T) {
	for _, v := range []any{kvstate.SourceAdvertisement{}, kvstate.Transport{}, kvstate.HostControlRequest(0), kvstate.IdentitySource(9),
		kvstate.QueryResponse{}, kvstate.QueryKind{Op: 9}, kvstate.RouterEvent{}, kvstate.RouterEvent{Kind: kvstate.Cleared, Tier: 9}} {
		if b, err := json.Marshal(v); err == nil {
			t.Errorf("%T: %s", v, b)
		}
	}
}
