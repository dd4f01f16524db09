package extproc

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"mooring/internal/fleet"
	"mooring/routing"
)

func TestRefusals(t *testing.T) {
	const duplex, none = filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, filterv3.ProcessingMode_NONE
	two := "x-routing-group=two"
	tests := []struct {
		name     string
		messages []*extprocv3.ProcessingRequest
		status   int32
		code     string
		says     string
	}{
		{"session id too long", []*extprocv3.ProcessingRequest{firstMessage(duplex, true, "x-session-id="+strings.Repeat("s", 257))}, 400, "invalid", "256 bytes"},
		{"group that nobody serves", []*extprocv3.ProcessingRequest{firstMessage(duplex, true, "x-routing-group=three")}, 503, "no_worker", ""},
		{"body not JSON", []*extprocv3.ProcessingRequest{firstMessage(duplex, false, two), requestBodyMessage([]byte("{"), true)}, 400, "invalid", ""},
		{"model that nobody serves", []*extprocv3.ProcessingRequest{firstMessage(duplex, false, two), requestBodyMessage([]byte(`{"model":"<c>"}`), true)}, 404, "no_model", "a, b"},
		{"body too long", []*extprocv3.ProcessingRequest{firstMessage(duplex, false, two), requestBodyMessage(make([]byte, 256<<10+1), false)}, 413, "too_large", "262144"},
		{"no bodies here", []*extprocv3.ProcessingRequest{firstMessage(none, false, two)}, 400, "invalid", "passes no request bodies"},
		{"part of a body", []*extprocv3.ProcessingRequest{firstMessage(filterv3.ProcessingMode_BUFFERED_PARTIAL, false, two), requestBodyMessage([]byte(`{"model":`), false)}, 413, "too_large", "first 9 bytes"},
		{"mode that cannot work", []*extprocv3.ProcessingRequest{firstMessage(filterv3.ProcessingMode_GRPC, true)}, 503, "invalid", "request_body_mode GRPC"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				p := r.open()
				answers := p.ask(tt.messages...)
				if err := <-p.result; err != nil {
					t.Fatalf("the stream ended with %v", err)
				}
				checkRefusal(t, answers[len(answers)-1].GetImmediateResponse(), tt.status, tt.code, tt.says)
				r.clean()
			})
		})
	}
}

func checkRefusal(t *testing.T, got *extprocv3.ImmediateResponse, code int32, reason, says string) {
	t.Helper()
	var body errorBody
	if err := json.Unmarshal(got.GetBody(), &body); err != nil {
		t.Fatalf("body %q: %v", got.GetBody(), err)
	}
	if int32(got.GetStatus().GetCode()) != code || body.Error.Code != reason || got.GetDetails() != "mooring_"+reason || body.Error.Type == "" || !strings.Contains(body.Error.Message, says) {
		t.Errorf("got %v %s, want %d %s and %q", got.GetStatus(), got.GetBody(), code, reason, says)
	}
	for _, h := range got.GetHeaders().GetSetHeaders() {
		if h.GetHeader().GetValue() != "" {
			t.Errorf("header %v sets value", h)
		}
	}
	if first := got.GetHeaders().GetSetHeaders()[0].GetHeader(); first.GetKey() != "content-type" || string(first.GetRawValue()) != "application/json" {
		t.Errorf("first header %v", first)
	}
}

func TestRetryAfterIsInWholeSeconds(t *testing.T) {
	tests := []struct {
		err  routing.Error
		want string
	}{
		{routing.Error{Kind: routing.Busy, RetryAfter: 1500 * time.Millisecond}, "2"},
		{routing.Error{Kind: routing.Busy}, "1"},
		{routing.Error{Kind: routing.TimedOut}, "1"},
		{routing.Error{Kind: routing.Unavailable}, ""},
		{routing.Error{Kind: routing.Unavailable, RetryAfter: time.Second}, "1"},
	}
	for _, tt := range tests {
		got := ""
		for _, h := range immediate(&tt.err).GetImmediateResponse().GetHeaders().GetSetHeaders() {
			if h.GetHeader().GetKey() == "retry-after" {
				got = string(h.GetHeader().GetRawValue())
			}
		}
		if got != tt.want {
			t.Errorf("%+v: retry-after %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestAnswerSetsAndRemovesHeaders(t *testing.T) {
	tests := []struct {
		name    string
		target  fleet.Target
		ranks   uint32
		header  bool
		set     string
		removed []string
	}{
		{"one rank", fleet.OnRank(1<<63, 0), 1, false, "x-dynamo-worker-instance-id=9223372036854775808 x-dynamo-dp-rank=0", []string{"x-data-parallel-rank", "x-gateway-destination-endpoint"}},
		{"several ranks", fleet.OnRank(5, 3), 4, false, "x-dynamo-worker-instance-id=5 x-dynamo-dp-rank=3 x-data-parallel-rank=3", []string{"x-gateway-destination-endpoint"}},
		{"worker only", fleet.WorkerOnly(5), 4, true, "x-dynamo-worker-instance-id=5 x-gateway-destination-endpoint=1.2.3.4:5", []string{"x-dynamo-dp-rank", "x-data-parallel-rank"}},
	}
	for _, tt := range tests {
		a := newAnswers(&Config{ReplicaID: 1<<64 - 1, DestinationHeader: tt.header})
		p := a.pin(&routing.Route{Target: tt.target, Ranks: tt.ranks, Address: "1.2.3.4:5", Reason: routing.Bound}, 42)
		common, metadata := decoded(p.common), decoded(p.metadata)
		var set []string
		for _, h := range common.GetHeaderMutation().GetSetHeaders() {
			set = append(set, h.GetHeader().GetKey()+"="+string(h.GetHeader().GetRawValue()))
		}
		if got := strings.Join(set, " "); got != tt.set {
			t.Errorf("%s: set %q, want %q", tt.name, got, tt.set)
		}
		removed := common.GetHeaderMutation().GetRemoveHeaders()
		for _, name := range append(neverPassed(), tt.removed...) {
			if !slices.Contains(removed, name) {
				t.Errorf("%s: %s is not removed", tt.name, name)
			}
		}
		if len(removed) != len(neverPassed())+len(tt.removed) {
			t.Errorf("%s: removed %v", tt.name, removed)
		}
		text, err := json.Marshal(metadata.AsMap())
		if err != nil {
			t.Fatal(err)
		}
		want := `{"envoy.lb":{"x-gateway-destination-endpoint":"1.2.3.4:5"},"mooring":{"lease":"42","reason":"bound","replica":"18446744073709551615","worker":"` + tt.target.Worker.String() + `"}}`
		if string(text) != want {
			t.Errorf("%s: metadata %s, want %s", tt.name, text, want)
		}
	}
}

// What is written straight in its encoded form is, byte for byte but for the
// order of fields, what the library writes.
func TestWire(t *testing.T) {
	long := strings.Repeat("l", 300) // its length takes two bytes
	tests := []struct {
		name string
		got  proto.Message
		want proto.Message
	}{
		{"headers", wire(nil).message(fieldMutation, func(w wire) wire { return w.set("a", long).remove("b").set("c", "d") }).asCommon(),
			&extprocv3.CommonResponse{HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{set("a", long), set("c", "d")}, RemoveHeaders: []string{"b"}}}},
		{"no headers", wire(nil).message(fieldMutation, func(w wire) wire { return w }).asCommon(), &extprocv3.CommonResponse{HeaderMutation: &extprocv3.HeaderMutation{}}},
		{"metadata", wire(nil).structEntry("n", func(w wire) wire { return w.stringEntry("k", long).stringEntry("l", "") }).stringEntry("s", "v").asMetadata(),
			must[*structpb.Struct](t)(structpb.NewStruct(map[string]any{"n": map[string]any{"k": long, "l": ""}, "s": "v"}))},
		{"no metadata", wire(nil).asMetadata(), &structpb.Struct{}},
	}
	for _, tt := range tests {
		if got := decoded(tt.got); !proto.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
		if got, want := proto.Size(tt.got), proto.Size(tt.want); got != want {
			t.Errorf("%s: %d bytes, want %d", tt.name, got, want)
		}
	}
}

// Header values come in raw_value from Envoy, in value from others.
func TestHeaderValues(t *testing.T) {
	h := &extprocv3.HttpHeaders{Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		{Key: "X-Session-ID", Value: "v"}, {Key: "x-session-id", RawValue: []byte("r")},
		{Key: "x-session-id", Value: "v", RawValue: []byte("r")}, {Key: "x_session_id", Value: "other"}, {},
	}}}
	if got := headerValues(h, "x-session-id"); !slices.Equal(got, []string{"v", "r", "r"}) {
		t.Errorf("got %q", got)
	}
}
