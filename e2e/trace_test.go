package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlpv1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.yaml.in/yaml/v3"
	"google.golang.org/grpc"
)

// collector is an OTLP receiver in the test's process.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	address string

	mu    sync.Mutex
	spans []*otlpv1.Span
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{address: ln.Addr().String()}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	go server.Serve(ln)
	t.Cleanup(server.Stop)
	return c
}

func (c *collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range req.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// named returns the spans of one trace whose name has a prefix.
func (c *collector) named(traceID, prefix string) []*otlpv1.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*otlpv1.Span
	for _, s := range c.spans {
		if hex.EncodeToString(s.GetTraceId()) == traceID && strings.HasPrefix(s.GetName(), prefix) {
			found = append(found, s)
		}
	}
	return found
}

// text returns everything that was received, to look for what must not be in it.
func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, s := range c.spans {
		b.WriteString(s.String())
	}
	return b.String()
}

func (c *collector) env() []string {
	return []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + c.address, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_TRACES_SAMPLER=parentbased_always_on",
	}
}

// Trace contexts as clients send them.
const (
	clientTrace  = "0af7651916cd43dd8448eb211c80319c"
	clientSpan   = "b7ad6b7169203331"
	clientParent = "00-" + clientTrace + "-" + clientSpan + "-01"
)

func TestOneTraceFromEnvoyThroughThePickToTheWorker(t *testing.T) {
	c := startCollector(t)
	s := newStack(t, stackConfig{env: c.env(), editBootstrap: func(t *testing.T, b []byte) []byte { return traced(t, b, c.address) }})
	request := s.tracedTurn(clientParent)
	eventually(t, 15*time.Second, "Envoy's and Mooring's spans", func() bool {
		return len(c.named(clientTrace, "mooring request")) == 1 && len(c.named(clientTrace, "pick")) == 1 && len(c.named(clientTrace, "ingress")) >= 1
	})
	mooring, pick := c.named(clientTrace, "mooring request")[0], c.named(clientTrace, "pick")[0]
	if string(pick.GetParentSpanId()) != string(mooring.GetSpanId()) {
		t.Error("the pick is no child of Mooring's request span")
	}
	if hex.EncodeToString(mooring.GetParentSpanId()) == clientSpan {
		t.Error("Mooring's span hangs on the client's span: want it on Envoy's, which the gRPC metadata names")
	}
	if !strings.HasPrefix(request.Headers.Get("Traceparent"), "00-"+clientTrace+"-") {
		t.Errorf("the worker got traceparent %q, want the same trace", request.Headers.Get("Traceparent"))
	}
	if got := request.Headers.Values("Traceparent"); len(got) != 1 {
		t.Errorf("the worker got %d traceparents: %v", len(got), got)
	}
	want := map[string]string{"mooring.reason": "new", "mooring.model": "sim", "mooring.routing_group": "default"}
	for key, value := range want {
		if got := attribute(mooring, key); got != value {
			t.Errorf("attribute %s is %q, want %q", key, got, value)
		}
	}
	if attribute(mooring, "mooring.worker") == "" || attribute(mooring, "mooring.session") == "" {
		t.Errorf("attributes %v, want worker and hashed session", mooring.GetAttributes())
	}
	if text := c.text(); strings.Contains(text, "traced-session") || strings.Contains(text, "secret words") {
		t.Error("a span holds the session id or prompt text")
	}
}

func TestTheClientsTraceIsTakenUpIfEnvoyDoesNotTrace(t *testing.T) {
	c := startCollector(t)
	s := newStack(t, stackConfig{env: c.env()})
	request := s.tracedTurn(clientParent)
	eventually(t, 15*time.Second, "Mooring's span", func() bool { return len(c.named(clientTrace, "mooring request")) == 1 })
	if got := hex.EncodeToString(c.named(clientTrace, "mooring request")[0].GetParentSpanId()); got != clientSpan {
		t.Errorf("parent span %s, want the client's %s", got, clientSpan)
	}
	if got := request.Headers.Values("Traceparent"); len(got) != 1 || got[0] != clientParent {
		t.Errorf("the worker got traceparent %v, want the client's own", got)
	}
}

func TestAMalformedTraceContextBeginsANewTrace(t *testing.T) {
	c := startCollector(t)
	s := newStack(t, stackConfig{env: c.env()})
	s.tracedTurn("00-" + strings.ToUpper(clientTrace) + "-" + clientSpan + "-01")
	eventually(t, 15*time.Second, "a span of a new trace", func() bool { return strings.Contains(c.text(), "mooring request") })
	if len(c.named(clientTrace, "")) != 0 {
		t.Error("a malformed trace context was taken up")
	}
}

// received is what a worker says of a request.
type received struct{ Headers http.Header }

// tracedTurn sends one request with a trace context and returns what the worker
// got.
func (s *stack) tracedTurn(traceparent string) received {
	s.t.Helper()
	client := http1()
	r, err := post(client, s.gateway, "/v1/completions", []byte(`{"model":"sim","prompt":"secret words","max_tokens":2}`),
		map[string]string{"X-Session-Id": "traced-session", "Traceparent": traceparent})
	if err != nil || r.status != http.StatusOK {
		s.t.Fatalf("%v, status %d: %s", err, r.status, r.body)
	}
	seen, err := send(client, http.MethodGet, r.header.Get("X-Sim-Worker"), "/debug/requests?session=traced-session", nil, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	var answer struct {
		Requests []struct{ Headers map[string][]string }
	}
	if err := json.Unmarshal(seen.body, &answer); err != nil || len(answer.Requests) == 0 {
		s.t.Fatalf("%v in %s", err, seen.body)
	}
	header := make(http.Header)
	for name, values := range answer.Requests[0].Headers {
		for _, v := range values {
			header.Add(name, v)
		}
	}
	return received{header}
}

func attribute(s *otlpv1.Span, key string) string {
	for _, kv := range s.GetAttributes() {
		if kv.GetKey() == key {
			return kv.GetValue().GetStringValue()
		}
	}
	return ""
}

// traced turns Envoy's own tracing on in a bootstrap.
func traced(t *testing.T, bootstrap []byte, collector string) []byte {
	t.Helper()
	var whole map[string]any
	if err := yaml.Unmarshal(bootstrap, &whole); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(collector)
	if err != nil {
		t.Fatal(err)
	}
	static := whole["static_resources"].(map[string]any)
	static["clusters"] = append(static["clusters"].([]any), parseYAML(t, strings.NewReplacer("HOST", host, "PORT", port).Replace(otlpCluster)))
	for _, listener := range static["listeners"].([]any) {
		for _, chain := range listener.(map[string]any)["filter_chains"].([]any) {
			for _, filter := range chain.(map[string]any)["filters"].([]any) {
				filter.(map[string]any)["typed_config"].(map[string]any)["tracing"] = parseYAML(t, otlpTracing)
			}
		}
	}
	out, err := yaml.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parseYAML(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

const otlpTracing = `
provider:
  name: envoy.tracers.opentelemetry
  typed_config:
    "@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig
    service_name: envoy
    grpc_service: {envoy_grpc: {cluster_name: otlp}}
`

const otlpCluster = `
name: otlp
type: STATIC
connect_timeout: 1s
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: {http2_protocol_options: {}}
load_assignment:
  cluster_name: otlp
  endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: HOST, port_value: PORT}}}}]}]
`
