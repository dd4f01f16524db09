package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTimeout bounds how long the last spans may take to leave at the end.
const flushTimeout = 5 * time.Second

// newTracing returns the tracer provider that the standard OTEL_* environment
// variables ask for, and the function that flushes it. Without an OTLP endpoint
// in the environment there is none (nil), so that a Mooring that nobody told
// about a collector does not look for one.
func newTracing(ctx context.Context, serviceName string, logger *slog.Logger) (trace.TracerProvider, func() error, error) {
	if !tracingWanted(os.Getenv) {
		return nil, func() error { return nil }, nil
	}
	exporter, err := newExporter(ctx, os.Getenv)
	if err != nil {
		return nil, nil, fmt.Errorf("tracing: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.Warn("spans are lost", "error", err)
	}))
	// Later detectors win: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES over
	// the configuration file.
	origin, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", serviceName), attribute.String("service.version", version())),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, nil, fmt.Errorf("tracing: %w", err)
	}
	// Sampler, limits and batching follow OTEL_TRACES_SAMPLER and its kin by
	// themselves.
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(origin))
	flush := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		return provider.Shutdown(ctx)
	}
	return provider, flush, nil
}

// tracingWanted reports whether the environment names where spans go.
func tracingWanted(env func(string) string) bool {
	switch {
	case env("OTEL_SDK_DISABLED") == "true", env("OTEL_TRACES_EXPORTER") == "none":
		return false
	case env("OTEL_TRACES_EXPORTER") == "otlp":
		return true
	default:
		return env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	}
}

// newExporter speaks the protocol that the environment asks for; the default is
// the specification's.
func newExporter(ctx context.Context, env func(string) string) (*otlptrace.Exporter, error) {
	if kind := env("OTEL_TRACES_EXPORTER"); kind != "" && kind != "otlp" {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER=%s: want otlp or none", kind)
	}
	protocol := env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = env("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%s: want http/protobuf or grpc", protocol)
	}
}
