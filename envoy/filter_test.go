package envoy

import (
	"regexp"
	"testing"
)

func TestMooringMayChangeItsOwnHeadersOnly(t *testing.T) {
	allowed := regexp.MustCompile("^(?:" + mutableHeaders + ")$") // Envoy matches the whole name
	for _, name := range []string{
		"x-gateway-destination-endpoint", "x-gateway-destination-endpoint-served", "x-gateway-destination-endpoint-subset",
		"x-mooring-worker", "x-mooring-reason", "x-dynamo-worker-instance-id", "x-worker-instance-id",
		"x-dynamo-dp-rank", "x-dp-rank", "x-data-parallel-rank", "x-dynamo-prefill-instance-id", "x-prefill-instance-id",
		"x-dynamo-prefill-dp-rank", "x-prefill-dp-rank", "content-type", "retry-after",
	} {
		if !allowed.MatchString(name) {
			t.Errorf("%s is ours and not allowed", name)
		}
	}
	for _, name := range []string{
		"host", ":authority", ":path", ":method", ":scheme", "authorization", "cookie", "content-length", "content-encoding",
		"transfer-encoding", "connection", "x-request-id", "x-forwarded-for", "x-envoy-original-dst-host", "x-envoy-retry-on",
		"traceparent", "x-session-id", "thread-id", "x-my-dp-rank", "x-worker-instance-id-2", "retry-after-ms",
	} {
		if allowed.MatchString(name) {
			t.Errorf("%s is not ours and allowed", name)
		}
	}
}
