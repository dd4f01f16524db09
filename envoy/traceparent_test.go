package envoy_test

import (
	"regexp"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"
)

const clientsTrace = "4bf92f3577b34da6a3ce929d0e0e4736"

// traced turns Envoy's tracing on; its spans go to a cluster that takes none.
func traced(b *bootstrapv3.Bootstrap) {
	editManager(b, func(m *managerv3.HttpConnectionManager) {
		config, err := anypb.New(&tracev3.OpenTelemetryConfig{
			ServiceName: "envoy",
			GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: "mooring"},
			}},
		})
		if err != nil {
			panic(err)
		}
		m.Tracing = &managerv3.HttpConnectionManager_Tracing{Provider: &tracev3.Tracing_Http{
			Name: "envoy.tracers.opentelemetry", ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: config},
		}}
	})
}

// With Envoy's tracing on, its own span is in the gRPC metadata, while the
// headers still say what the client said. With it off, the metadata has none.
func TestWhereTheTraceIs(t *testing.T) {
	client := "00-" + clientsTrace + "-00f067aa0ba902b7-01"
	for _, on := range []bool{false, true} {
		for _, sent := range []string{"", client} {
			edit := func(*bootstrapv3.Bootstrap) {}
			if on {
				edit = traced
			}
			r := startEditedRig(t, nil, edit)
			inMetadata := make(chan []string, 1)
			r.play(func(s *session) error {
				md, _ := metadata.FromIncomingContext(s.stream.Context())
				inMetadata <- md.Get("traceparent")
				for {
					m, err := s.stream.Recv()
					if err != nil {
						return nil
					}
					if _, err := s.answer(m); err != nil {
						return err
					}
				}
			})
			headers := []string{"x-test-pick", r.workers[0].address}
			if sent != "" {
				headers = append(headers, "traceparent", sent)
			}
			a := r.post(headers...)
			got := receive(t, inMetadata, "the stream")
			asked := receive(t, r.starts, "the request's headers").headers["traceparent"]
			reached := a.seen.Headers.Get("traceparent")
			t.Logf("tracing %v, client %q: metadata %q, headers %q, worker %q", on, sent, got, asked, reached)
			if asked != sent {
				t.Errorf("tracing %v: the headers say %q, the client said %q", on, asked, sent)
			}
			if !on {
				if len(got) != 0 || reached != sent {
					t.Errorf("tracing off: metadata %q, worker %q; the client said %q", got, reached, sent)
				}
				continue
			}
			form := regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-0[01]$`)
			if len(got) != 1 || !form.MatchString(got[0]) || !form.MatchString(reached) {
				t.Errorf("tracing on: metadata %q, worker %q", got, reached)
				continue
			}
			in, out := form.FindStringSubmatch(got[0]), form.FindStringSubmatch(reached)
			if in[1] != out[1] || in[2] == out[2] || sent != "" && (in[1] != clientsTrace || strings.Contains(client, in[2])) {
				t.Errorf("tracing on: want one trace and spans of Envoy's: metadata %q, worker %q, client %q", got, reached, sent)
			}
		}
	}
}
