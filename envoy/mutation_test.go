package envoy_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const mutated = "x-mooring-test"

// option is a header option in one of the ways in which the API can say it.
func option(h *corev3.HeaderValue, change func(*corev3.HeaderValueOption)) *corev3.HeaderValueOption {
	h.Key = mutated
	o := &corev3.HeaderValueOption{Header: h}
	if change != nil {
		change(o)
	}
	return o
}

func raw(value string) *corev3.HeaderValue { return &corev3.HeaderValue{RawValue: []byte(value)} }

func action(a corev3.HeaderValueOption_HeaderAppendAction) func(*corev3.HeaderValueOption) {
	return func(o *corev3.HeaderValueOption) { o.AppendAction = a }
}

func appends(yes bool) func(*corev3.HeaderValueOption) {
	//lint:ignore SA1019 what the deprecated field does is what is asked
	return func(o *corev3.HeaderValueOption) { o.Append = wrapperspb.Bool(yes) }
}

// What Envoy makes of the ways to set a header that the client has sent too.
func TestWaysToSetAHeader(t *testing.T) {
	tests := []struct {
		name   string
		set    []*corev3.HeaderValueOption
		status int
		want   string // the values, joined by "|"
	}{
		{"raw_value", []*corev3.HeaderValueOption{option(raw("a"), nil)}, 200, "a"},
		{"value", []*corev3.HeaderValueOption{option(&corev3.HeaderValue{Value: "a"}, nil)}, 200, ""},
		{"both", []*corev3.HeaderValueOption{option(&corev3.HeaderValue{Value: "v", RawValue: []byte("a")}, nil)}, 200, "a"},
		{"append", []*corev3.HeaderValueOption{option(raw("a"), appends(true))}, 200, "client|a"},
		{"append: false", []*corev3.HeaderValueOption{option(raw("a"), appends(false))}, 200, "a"},
		{"APPEND_IF_EXISTS_OR_ADD", []*corev3.HeaderValueOption{option(raw("a"), action(corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD))}, 200, "a"},
		{"ADD_IF_ABSENT", []*corev3.HeaderValueOption{option(raw("a"), action(corev3.HeaderValueOption_ADD_IF_ABSENT))}, 200, "a"},
		{"OVERWRITE_IF_EXISTS", []*corev3.HeaderValueOption{option(raw("a"), action(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS))}, 200, "a"},
		{"OVERWRITE_IF_EXISTS_OR_ADD", []*corev3.HeaderValueOption{option(raw("a"), action(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD))}, 200, "a"},
		{"twice", []*corev3.HeaderValueOption{option(raw("a"), nil), option(raw("b"), nil)}, 200, "b"},
		{"line break", []*corev3.HeaderValueOption{option(raw("a\r\nx: y"), nil)}, 503, ""},
		{"empty", []*corev3.HeaderValueOption{option(raw(""), nil)}, 200, ""},
	}
	r := startRig(t, nil)
	for _, tt := range tests {
		r.play(func(s *session) error {
			m, err := s.stream.Recv()
			if err != nil {
				return err
			}
			s.headers = map[string]string{"x-test-pick": r.workers[0].address}
			answer := s.pick()
			answer.GetRequestHeaders().GetResponse().HeaderMutation = &extprocv3.HeaderMutation{SetHeaders: tt.set}
			if m.GetRequestHeaders() == nil {
				t.Errorf("%s: the stream begins with %T", tt.name, m.GetRequest())
			}
			if err := s.stream.Send(answer); err != nil {
				return err
			}
			_, err = s.stream.Recv()
			return err
		})
		a := r.get(mutated, "client")
		if got := strings.Join(a.seen.Headers.Values(mutated), "|"); a.status != tt.status || got != tt.want {
			t.Errorf("%s: got %d, %q; want %d, %q", tt.name, a.status, got, tt.status, tt.want)
		}
	}
}

// An immediate response has content-type and retry-after of the generated rules,
// and its status where there is one.
func TestHeadersOfAnImmediateResponse(t *testing.T) {
	r := startRig(t, nil)
	for _, tt := range []struct{ said, want int }{{0, 200}, {100, 200}, {429, 429}, {503, 503}} {
		r.play(func(s *session) error {
			if _, err := s.stream.Recv(); err != nil {
				return err
			}
			return s.stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
				ImmediateResponse: &extprocv3.ImmediateResponse{
					Status: &typev3.HttpStatus{Code: typev3.StatusCode(tt.said)},
					Headers: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{
						rawHeader("content-type", "application/json"), rawHeader("retry-after", "7"), rawHeader("x-not-ours", "a"),
						rawHeader("location", "http://elsewhere"), rawHeader("set-cookie", "a=b"),
					}},
					Body: []byte("{}"), Details: "mooring_a word or two",
				},
			}})
		})
		a := r.post()
		if a.status != tt.want || a.body != "{}" || a.header.Get("Content-Type") != "application/json" || a.header.Get("Retry-After") != "7" {
			t.Errorf("status %d: got %d %q %v", tt.said, a.status, a.body, a.header)
		}
		for _, name := range []string{"X-Not-Ours", "Location", "Set-Cookie"} {
			if a.header.Get(name) != "" {
				t.Errorf("status %d: %s got through", tt.said, name)
			}
		}
		if details := r.entry().GetResponse().GetResponseCodeDetails(); details != "mooring_a_word_or_two" {
			t.Errorf("status %d: details %q", tt.said, details)
		}
	}
}
