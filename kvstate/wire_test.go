package kvstate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"mooring/kvstate"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// wireSample is one value of a wire type, and how to make an empty one.
type wireSample struct {
	name  string
	value any
	empty func() any
}

func sample[T any](name string, v T) wireSample {
	return wireSample{name, &v, func() any { return new(T) }}
}

// wireSamples has every wire type, with every optional field set and unset.
func wireSamples() []wireSample {
	fullSource, fullIntent, fullInstance := source(), intent(), instance()
	fullSource.RouterHintSource = &kvstate.RouterHintSource{SourceControlEndpoint: "tcp://10.0.0.7:9", WorkerType: "decode"}
	fullIntent.RouterHintSource, fullIntent.ImageTokenID, fullIntent.VideoTokenID = fullSource.RouterHintSource, ptr(uint32(0)), ptr(uint32(2))
	fullInstance.DeviceType, fullInstance.RequestPlaneCodec, fullInstance.InstanceID = "cuda", "json", 1<<64-1
	fullInstance.Transport = kvstate.Transport{Kind: kvstate.HTTP, Address: "http://10.0.0.7:80/?a=1&b=2"}
	bare, extended, ownerOnly := status(), status(), receipt()
	bare.Attachment, extended.EventEndpoint, ownerOnly.AttachmentGeneration = nil, "tcp://10.0.0.7:6000", nil
	ask := kvstate.QueryRequest{WorkerID: 17, DPRank: 3, StartEventID: ptr(uint64(0)), EndEventID: ptr(uint64(1<<64 - 1)), SupportsTreeDumpFailed: true,
		Kind: kvstate.QueryKind{Op: kvstate.QueryStateAgentRecovery, Expected: identity(), ExpectedAttachmentGeneration: ptr(uint64(7))}}
	askStatus := kvstate.QueryRequest{Kind: kvstate.QueryKind{Op: kvstate.QueryStatus, Expected: identity()}}
	dump := kvstate.QueryResponse{TreeDump: &kvstate.TreeDumpReply{Events: []kvstate.RouterEvent{storeEvent()}, LastEventID: 9,
		ResetScope: kvstate.ResetScope{Limited: true, Domain: kvstate.CacheOwnerDomain}}}
	return []wireSample{
		sample("owner", owner(4)), sample("instance", instance()), sample("instance, full", fullInstance),
		sample("nats instance", kvstate.Instance{Transport: kvstate.Transport{Kind: kvstate.NATSTCP, Address: "a"}}),
		sample("source", source()), sample("source, full", fullSource), sample("attachment", attachment()),
		sample("intent", intent()), sample("intent, full", fullIntent),
		sample("host", kvstate.HostAdvertisement{ProtocolVersion: kvstate.V2, HostInstance: instance(), ControlTarget: instance(), MaxSlots: 8}),
		sample("host request", kvstate.HostStatusRequest),
		sample("host status", kvstate.HostStatus{Healthy: true, TotalSlots: 8, ActiveSlots: 3, DetachedSlots: 2, FailedSlots: 1, CapacityRejectedTotal: 1<<64 - 1}),
		sample("host status, error", kvstate.HostStatus{Error: "watch ended"}),
		sample("agent status", status()), sample("agent status, detached", bare), sample("agent status, extended", extended),
		sample("receipt", receipt()), sample("receipt, owner only", ownerOnly),
		sample("query", kvstate.QueryRequest{WorkerID: 17}), sample("query recovery", ask), sample("query status", askStatus),
		sample("answer status", kvstate.QueryResponse{Status: ptr(status())}), sample("answer dump", dump),
		sample("answer recovery", kvstate.QueryResponse{StateAgentRecovery: &kvstate.StateAgentRecoveryReply{Response: dump, Receipt: receipt()}}),
		sample("answer events", kvstate.QueryResponse{Events: &kvstate.EventsReply{Events: []kvstate.RouterEvent{removeEvent(), clearEvent()}, LastEventID: 7}}),
		sample("answer no events", kvstate.QueryResponse{Events: &kvstate.EventsReply{LastEventID: 7}}),
		sample("answer empty dump", kvstate.QueryResponse{TreeDump: &kvstate.TreeDumpReply{}}),
		sample("answer dump failed", kvstate.QueryResponse{TreeDumpFailed: &kvstate.TreeDumpFailedReply{LastEventID: 9, Message: "busy"}}),
		sample("answer too new", kvstate.QueryResponse{TooNew: &kvstate.TooNewReply{RequestedStart: ptr(uint64(5)), NewestAvailable: 4}}),
		sample("answer invalid range", kvstate.QueryResponse{InvalidRange: &kvstate.InvalidRangeReply{StartID: 5, EndID: 4}}),
		sample("answer error", kvstate.QueryResponse{Error: ptr("")}),
		sample("event stored", storeEvent()), sample("event removed", removeEvent()), sample("event cleared", clearEvent()),
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatalf("encode %T: %v", v, err)
	}
	return bytes.TrimSpace(b.Bytes())
}

func TestExactJSON(t *testing.T) {
	var got strings.Builder
	for _, s := range wireSamples() {
		fmt.Fprintf(&got, "%s: %s\n", s.name, encode(t, s.value))
	}
	short := strings.NewReplacer(string(encode(t, owner(4))), "<owner>", string(encode(t, owner(4).Pool.IndexerDomain)), "<domain>", string(encode(t, instance())), "<instance>")
	var text strings.Builder
	fmt.Fprintf(&text, "<owner>: %s\n<domain>: %s\n<instance>: %s\n", encode(t, owner(4)), encode(t, owner(4).Pool.IndexerDomain), encode(t, instance()))
	text.WriteString(short.Replace(got.String()))
	golden(t, "wire.txt", text.String())
}

// TestJSONRoundTrip goes through both JSON packages in use: their defaults differ.
func TestJSONRoundTrip(t *testing.T) {
	for _, s := range wireSamples() {
		second, err := jsonv2.Marshal(s.value)
		if err != nil || !bytes.Equal(second, encode(t, s.value)) {
			t.Errorf("%s: %v, %s", s.name, err, second)
		}
		if err := jsonv2.Unmarshal(second, s.empty()); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		back := s.empty()
		if err := json.Unmarshal(encode(t, s.value), back); err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if diff := cmp.Diff(s.value, back); diff != "" {
			t.Errorf("%s (-sent +received):\n%s", s.name, diff)
		}
	}
}

func optional(s wireSample, field string) bool {
	switch field {
	case "router_hint_source", "image_token_id", "video_token_id", "device_type", "request_plane_codec", "attachment", "event_endpoint",
		"error", "start_event_id", "end_event_id", "supports_tree_dump_failed", "kind",
		"storage_tier", "residency_domain", "state_source", "session_id":
		return true
	case "attachment_generation":
		return strings.HasPrefix(s.name, "receipt")
	}
	return false
}

// TestObjectsAreStrict takes each object of each sample apart: without one of its
// fields it is refused by name, or the field is optional; with one doubled it is
// always refused; in other capitals a name is another name.
func TestObjectsAreStrict(t *testing.T) {
	for _, s := range wireSamples() {
		text := encode(t, s.value)
		if text[0] != '{' || strings.HasPrefix(s.name, "answer") {
			continue
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		for name, value := range fields {
			without := fieldsWithout(t, fields, name)
			err := json.Unmarshal(without, s.empty())
			may := optional(s, name)
			if (err == nil) != may || err != nil && !strings.Contains(err.Error(), `"`+name+`"`) {
				t.Errorf("%s without %s: %v", s.name, name, err)
			}
			capitals := bytes.Replace(text, []byte(`"`+name+`":`), []byte(`"`+strings.ToUpper(name)+`":`), 1)
			if err := json.Unmarshal(capitals, s.empty()); (err == nil) != may {
				t.Errorf("%s with %s in capitals: %v", s.name, name, err)
			}
			twice := append([]byte(`{"`+name+`":`), value...)
			twice = append(append(twice, ','), text[1:]...)
			if err := json.Unmarshal(twice, s.empty()); err == nil {
				t.Errorf("%s with %s twice was accepted", s.name, name)
			}
			more := append([]byte(`{"from_the_future":[{}],`), text[1:]...)
			if err := json.Unmarshal(more, s.empty()); err != nil {
				t.Errorf("%s with an unknown field: %v", s.name, err)
			}
		}
	}
}

func fieldsWithout(t *testing.T, fields map[string]json.RawMessage, name string) []byte {
	t.Helper()
	rest := make(map[string]json.RawMessage)
	for k, v := range fields {
		if k != name {
			rest[k] = v
		}
	}
	b, err := json.Marshal(rest)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzJSON(f *testing.F) {
	samples := wireSamples()
	for i, s := range samples {
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(s.value); err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b.Bytes())
		f.Add(uint8(i), []byte("null"))
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		s := samples[int(which)%len(samples)]
		first, second := s.empty(), s.empty()
		if json.Unmarshal(data, first) != nil {
			return
		}
		text, err := json.Marshal(first)
		if err != nil {
			t.Fatalf("%T read from %q cannot be written: %v", first, data, err)
		}
		if err := json.Unmarshal(text, second); err != nil {
			t.Fatalf("%T: %s is not read back: %v", first, text, err)
		}
		if again, err := json.Marshal(second); err != nil || !bytes.Equal(text, again) {
			t.Fatalf("%T: %s became %s, %v", first, text, again, err)
		}
		if !reflect.DeepEqual(first, second) && !cmp.Equal(first, second, cmp.Comparer(bytes.Equal)) {
			t.Fatalf("%T changed:\n%s", first, cmp.Diff(first, second))
		}
	})
}
