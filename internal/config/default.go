package config

import (
	"time"

	"mooring/internal/fleet"
)

// DefaultEndpointsFile is where Envoy's endpoints are kept unless the file says
// otherwise, relative to the configuration file.
const DefaultEndpointsFile = "mooring-endpoints/workers.yaml"

// Default returns what the empty file means. The caller owns the value.
func Default() *Config {
	return &Config{
		Listen: Listen{ExtProc: "127.0.0.1:9002", Admin: "127.0.0.1:9090"},
		Request: Request{
			RoutingGroup:   HeaderOrDefault{Header: "x-routing-group", Default: fleet.DefaultName},
			MaxBodyBytes:   16 * MiB,
			Deadline:       2 * time.Second,
			End:            EndAccessLog,
			MaxRequestTime: time.Hour,
		},
		Session: Session{
			Headers: []string{
				"x-dynamo-session-id", "x-claude-code-session-id", "thread-id",
				"x-deepseek-harness-session-id", "x-session-id",
			},
			Mode:         ModeHard,
			TTL:          30 * time.Minute,
			MaxSessions:  65536,
			InitTimeout:  5 * time.Second,
			OnWorkerGone: WorkerGoneRebind,
			WaitFor:      5 * time.Second,
		},
		Workers: Workers{
			Health: Health{
				Path: "/health", Interval: 2 * time.Second, Timeout: time.Second,
				UnhealthyAfter: 2, HealthyAfter: 3,
			},
			Metrics: Metrics{Path: "/metrics", Interval: time.Second},
			Grace:   30 * time.Second,
		},
		Replication: Replication{
			Listen:         "tcp://127.0.0.1:9092",
			Publish:        []Topic{TopicV2, TopicV1},
			SyncTimeout:    3 * time.Second,
			DigestInterval: 5 * time.Second,
			MaxClockSkew:   time.Hour,
		},
		KVState: KVState{MaxBlocks: 4194304, HoledWeight: 0.5},
		Routing: Routing{
			Tokenizer:          Tokenizer{Deadline: 50 * time.Millisecond},
			OverlapScoreCredit: 1, PrefillLoadScale: 1,
			HostCacheHitWeight: 0.75, DiskCacheHitWeight: 0.25, DecodeActiveRequestWeight: 1,
		},
		Envoy: Envoy{
			Listener:      "127.0.0.1:10000",
			Admin:         "127.0.0.1:9901",
			Attachment:    AttachOverrideHost,
			BodyMode:      BodyFullDuplex,
			EndpointsFile: DefaultEndpointsFile,
		},
		Shutdown:  Shutdown{Drain: 30 * time.Second},
		Telemetry: Telemetry{ServiceName: "mooring"},
	}
}
