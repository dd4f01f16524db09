package config

import "time"

// The longest spans that make sense, so that a mistyped unit is found.
const (
	day  = 24 * time.Hour
	week = 7 * day
	year = 365 * day
)

// fileSchema is the configuration file: every key with what it takes, in the
// order of the documentation.
func fileSchema() *schema[Config] {
	var keys []key[Config]
	for _, section := range [][]key[Config]{
		listenKeys(), requestKeys(), sessionKeys(), workersKeys(), replicationKeys(),
		kvstateKeys(), routingKeys(), envoyKeys(), otherKeys(),
	} {
		keys = append(keys, section...)
	}
	return newSchema(keys)
}

func listenKeys() []key[Config] {
	return []key[Config]{
		leaf("listen.extproc", func(c *Config) *string { return &c.Listen.ExtProc }, text[string](listenOrUnix)),
		leaf("listen.admin", func(c *Config) *string { return &c.Listen.Admin }, text[string](listenAddress("127.0.0.1:9090"))),
		leaf("listen.tls.cert_file", func(c *Config) *string { return &c.Listen.TLS.CertFile }, text[string](optional(filePath))),
		leaf("listen.tls.key_file", func(c *Config) *string { return &c.Listen.TLS.KeyFile }, text[string](optional(filePath))),
		leaf("listen.tls.client_ca_file", func(c *Config) *string { return &c.Listen.TLS.ClientCAFile }, text[string](optional(filePath))),
	}
}

func requestKeys() []key[Config] {
	return []key[Config]{
		leaf("request.model.header", func(c *Config) *string { return &c.Request.Model.Header }, text[string](optional(headerName))),
		leaf("request.model.default", func(c *Config) *string { return &c.Request.Model.Default }, text[string](optional(name))),
		leaf("request.routing_group.header", func(c *Config) *string { return &c.Request.RoutingGroup.Header }, text[string](optional(headerName))),
		leaf("request.routing_group.default", func(c *Config) *string { return &c.Request.RoutingGroup.Default }, text[string](name)),
		leaf("request.explicit_target", func(c *Config) *bool { return &c.Request.ExplicitTarget }, boolean),
		leaf("request.max_body_bytes", func(c *Config) *Size { return &c.Request.MaxBodyBytes }, size(1, GiB)),
		leaf("request.deadline", func(c *Config) *time.Duration { return &c.Request.Deadline }, duration(time.Millisecond, 10*time.Minute)),
		leaf("request.end", func(c *Config) *End { return &c.Request.End }, oneOf(EndAccessLog, EndStream)),
		leaf("request.max_request_time", func(c *Config) *time.Duration { return &c.Request.MaxRequestTime }, duration(time.Second, week)),
	}
}

func sessionKeys() []key[Config] {
	return []key[Config]{
		listOf("session.headers", 1, 16, func(c *Config) *[]string { return &c.Session.Headers }, text[string](headerName)),
		leaf("session.mode", func(c *Config) *Mode { return &c.Session.Mode }, oneOf(ModeHard, ModeSoft)),
		leaf("session.ttl", func(c *Config) *time.Duration { return &c.Session.TTL }, duration(time.Second, year)),
		leaf("session.max_sessions", func(c *Config) *int { return &c.Session.MaxSessions }, integer(1, 1<<24)),
		leaf("session.init_timeout", func(c *Config) *time.Duration { return &c.Session.InitTimeout }, duration(time.Millisecond, 10*time.Minute)),
		leaf("session.on_worker_gone", func(c *Config) *WorkerGone { return &c.Session.OnWorkerGone },
			oneOf(WorkerGoneRebind, WorkerGoneFail, WorkerGoneWait)),
		leaf("session.wait_for", func(c *Config) *time.Duration { return &c.Session.WaitFor }, duration(0, 10*time.Minute)),
		leaf("session.expose", func(c *Config) *bool { return &c.Session.Expose }, boolean),
	}
}

func workersKeys() []key[Config] {
	return []key[Config]{
		workerListKey("workers.static", func(c *Config) *[]WorkerSpec { return &c.Workers.Static }),
		leaf("workers.file", func(c *Config) *string { return &c.Workers.File }, text[string](optional(filePath))),
		leaf("workers.health.path", func(c *Config) *string { return &c.Workers.Health.Path }, text[string](optional(urlPath))),
		leaf("workers.health.interval", func(c *Config) *time.Duration { return &c.Workers.Health.Interval }, duration(10*time.Millisecond, time.Hour)),
		leaf("workers.health.timeout", func(c *Config) *time.Duration { return &c.Workers.Health.Timeout }, duration(time.Millisecond, time.Hour)),
		leaf("workers.health.unhealthy_after", func(c *Config) *int { return &c.Workers.Health.UnhealthyAfter }, integer(1, 100)),
		leaf("workers.health.healthy_after", func(c *Config) *int { return &c.Workers.Health.HealthyAfter }, integer(1, 100)),
		leaf("workers.metrics.path", func(c *Config) *string { return &c.Workers.Metrics.Path }, text[string](optional(urlPath))),
		leaf("workers.metrics.interval", func(c *Config) *time.Duration { return &c.Workers.Metrics.Interval }, duration(10*time.Millisecond, time.Hour)),
		leaf("workers.grace", func(c *Config) *time.Duration { return &c.Workers.Grace }, duration(0, day)),
	}
}

func replicationKeys() []key[Config] {
	return []key[Config]{
		leaf("replication.listen", func(c *Config) *string { return &c.Replication.Listen }, text[string](optional(tcpListener))),
		listOf("replication.peers", 0, 1024, func(c *Config) *[]string { return &c.Replication.Peers }, text[string](tcpEndpoint("tcp://10.0.0.7:9092"))),
		listOf("replication.publish", 1, 2, func(c *Config) *[]Topic { return &c.Replication.Publish }, oneOf(TopicV2, TopicV1)),
		leaf("replication.key_file", func(c *Config) *string { return &c.Replication.KeyFile }, text[string](optional(filePath))),
		leaf("replication.writer_id", func(c *Config) *uint64 { return &c.Replication.WriterID }, id[uint64]),
		leaf("replication.sync_timeout", func(c *Config) *time.Duration { return &c.Replication.SyncTimeout }, duration(0, 10*time.Minute)),
		leaf("replication.digest_interval", func(c *Config) *time.Duration { return &c.Replication.DigestInterval }, duration(100*time.Millisecond, time.Hour)),
		leaf("replication.max_clock_skew", func(c *Config) *time.Duration { return &c.Replication.MaxClockSkew }, duration(time.Second, day)),
	}
}

func kvstateKeys() []key[Config] {
	return []key[Config]{
		leaf("kvstate.records_dir", func(c *Config) *string { return &c.KVState.RecordsDir }, text[string](optional(filePath))),
		leaf("kvstate.block_size", func(c *Config) *int { return &c.KVState.BlockSize }, integer(0, maxBlockSize)),
		leaf("kvstate.max_blocks", func(c *Config) *int { return &c.KVState.MaxBlocks }, integer(1, 1<<30)),
		leaf("kvstate.holed_weight", func(c *Config) *float64 { return &c.KVState.HoledWeight }, number(0, 1, "")),
	}
}

func routingKeys() []key[Config] {
	return []key[Config]{
		leaf("routing.tokenizer.url", func(c *Config) *string { return &c.Routing.Tokenizer.URL }, text[string](optional(tokenizerURL))),
		leaf("routing.tokenizer.deadline", func(c *Config) *time.Duration { return &c.Routing.Tokenizer.Deadline }, duration(time.Millisecond, time.Minute)),
		leaf("routing.overlap_score_credit", func(c *Config) *float64 { return &c.Routing.OverlapScoreCredit },
			number(0, 1, "to weigh prompt work more, raise routing.prefill_load_scale")),
		leaf("routing.overlap_score_credit_decay", func(c *Config) *float64 { return &c.Routing.OverlapScoreCreditDecay }, number(0, 1000, "")),
		leaf("routing.prefill_load_scale", func(c *Config) *float64 { return &c.Routing.PrefillLoadScale }, number(0, 1000, "")),
		leaf("routing.host_cache_hit_weight", func(c *Config) *float64 { return &c.Routing.HostCacheHitWeight }, number(0, 1, "")),
		leaf("routing.disk_cache_hit_weight", func(c *Config) *float64 { return &c.Routing.DiskCacheHitWeight }, number(0, 1, "")),
		leaf("routing.shared_cache_multiplier", func(c *Config) *float64 { return &c.Routing.SharedCacheMultiplier }, number(0, 1, "")),
		leaf("routing.decode_active_request_weight", func(c *Config) *float64 { return &c.Routing.DecodeActiveRequestWeight }, number(0, 1000, "")),
		leaf("routing.temperature", func(c *Config) *float64 { return &c.Routing.Temperature }, number(0, 1000, "")),
		leaf("routing.limits.active_requests", func(c *Config) *int { return &c.Routing.Limits.ActiveRequests }, integer(0, 1<<20)),
		leaf("routing.limits.waiting_requests", func(c *Config) *int { return &c.Routing.Limits.WaitingRequests }, integer(0, 1<<20)),
		leaf("routing.limits.kv_use", func(c *Config) *float64 { return &c.Routing.Limits.KVUse }, number(0, 1, "")),
	}
}

func envoyKeys() []key[Config] {
	return []key[Config]{
		leaf("envoy.listener", func(c *Config) *string { return &c.Envoy.Listener }, text[string](listenAddress("127.0.0.1:10000"))),
		leaf("envoy.admin", func(c *Config) *string { return &c.Envoy.Admin }, text[string](optional(listenAddress("127.0.0.1:9901")))),
		leaf("envoy.attachment", func(c *Config) *Attachment { return &c.Envoy.Attachment }, oneOf(AttachOverrideHost, AttachOriginalDst)),
		leaf("envoy.body_mode", func(c *Config) *BodyMode { return &c.Envoy.BodyMode }, oneOf(BodyFullDuplex, BodyNone, BodyBuffered)),
		leaf("envoy.destination_header", func(c *Config) *bool { return &c.Envoy.DestinationHeader }, boolean),
		leaf("envoy.endpoints_file", func(c *Config) *string { return &c.Envoy.EndpointsFile }, text[string](filePath)),
	}
}

func otherKeys() []key[Config] {
	return []key[Config]{
		leaf("shutdown.drain", func(c *Config) *time.Duration { return &c.Shutdown.Drain }, duration(0, time.Hour)),
		leaf("telemetry.service_name", func(c *Config) *string { return &c.Telemetry.ServiceName }, text[string](name)),
	}
}
