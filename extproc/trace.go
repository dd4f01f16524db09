package extproc

import (
	"context"
	"net/http"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	grpcmeta "google.golang.org/grpc/metadata"

	"mooring/affinity"
)

// tracerName is the instrumentation scope of this package's spans.
const tracerName = "mooring/extproc"

// carrier reads the trace context of a request.
type carrier func(name string) []string

func (c carrier) Get(name string) string {
	if values := c(name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set does nothing: a carrier is only read from.
func (c carrier) Set(string, string) {}

// Keys is not needed to read a trace context.
func (c carrier) Keys() []string { return nil }

// withParent returns ctx with the request's parent span: the one in the gRPC
// metadata, which Envoy puts there if it traces, else the one in the HTTP
// headers, which the client put there, else none. A malformed one is none.
func withParent(ctx context.Context, m *extprocv3.ProcessingRequest) context.Context {
	var propagator propagation.TraceContext
	with := propagator.Extract(ctx, carrier(func(name string) []string { return grpcmeta.ValueFromIncomingContext(ctx, name) }))
	if trace.SpanContextFromContext(with).IsValid() {
		return with
	}
	headers := m.GetRequestHeaders()
	return propagator.Extract(ctx, carrier(func(name string) []string { return headerValues(headers, name) }))
}

// startSpan begins the span of the request: from its headers to the end of its
// stream. close ends it.
func (x *exchange) startSpan(m *extprocv3.ProcessingRequest) {
	if x.tracer == nil {
		x.traced = x.ctx
		return
	}
	x.traced, x.span = x.tracer.Start(withParent(x.ctx, m), "mooring request", trace.WithSpanKind(trace.SpanKindServer))
}

// startPickSpan begins the span of the pick, a child of the request's.
func (x *exchange) startPickSpan() trace.Span {
	if x.tracer == nil {
		return noop.Span{}
	}
	_, span := x.tracer.Start(x.traced, "pick")
	return span
}

// endSpan says what became of the request. Spans hold no prompt text, and of the
// session only its hash.
func (x *exchange) endSpan() {
	if x.span == nil {
		return // nothing was received, or nobody traces
	}
	defer x.span.End()
	if !x.span.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{
		attribute.String("mooring.reason", x.line.reason),
		attribute.String("mooring.routing_group", x.req.Group),
		attribute.Int("mooring.body_bytes", x.line.body),
	}
	if x.req.Session != "" {
		attributes = append(attributes, attribute.String("mooring.session", affinity.HashSession(x.req.Session)))
	}
	if x.route != nil {
		attributes = append(attributes,
			attribute.String("mooring.model", x.route.Partition.Model),
			attribute.String("mooring.worker", x.route.Target.Worker.String()),
			attribute.String("mooring.target", x.route.Target.String()),
			attribute.Int("mooring.candidates", x.route.Candidates),
			attribute.Int("mooring.overlap", x.route.Overlap), // blocks
			attribute.Float64("mooring.cost", x.route.Cost),
		)
	}
	x.span.SetAttributes(attributes...)
	if x.line.code != 0 && x.line.code != http.StatusOK {
		x.span.SetAttributes(attribute.Int("http.response.status_code", x.line.code))
		x.span.SetStatus(codes.Error, x.line.reason)
	}
}
