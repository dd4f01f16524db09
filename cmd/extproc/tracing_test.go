package main

import (
	"context"
	"strings"
	"testing"
)

func TestTracingIsOnOnlyIfTheEnvironmentNamesACollector(t *testing.T) {
	tests := []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"OTEL_SERVICE_NAME": "x"}, false},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, true},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, false},
		{map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, false},
	}
	for _, tt := range tests {
		if got := tracingWanted(func(name string) string { return tt.env[name] }); got != tt.want {
			t.Errorf("%v: tracing %v, want %v", tt.env, got, tt.want)
		}
	}
}

func TestUnknownExportersAreNamed(t *testing.T) {
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_TRACES_EXPORTER": "zipkin"} {
		_, err := newExporter(context.Background(), func(n string) string {
			if n == name {
				return value
			}
			return ""
		})
		if err == nil || !strings.Contains(err.Error(), name+"="+value) {
			t.Errorf("%s=%s: %v, want an error that names it", name, value, err)
		}
	}
}
