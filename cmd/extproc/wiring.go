package main

import (
	"log/slog"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"mooring/affinity"
	"mooring/extproc"
	"mooring/internal/config"
	"mooring/internal/discovery"
	"mooring/routing"
)

// Each function here says what one part takes from the configuration file.

func discoveryConfig(cfg *config.Config, logger *slog.Logger, metrics prometheus.Registerer) discovery.Config {
	c := discovery.Config{
		Health:     healthConfig(cfg),
		Grace:      cfg.Workers.Grace,
		Logger:     logger,
		Registerer: metrics,
	}
	if cfg.Envoy.Attachment == config.AttachOverrideHost {
		c.Settle = endpointSettle
	}
	return c
}

func healthConfig(cfg *config.Config) discovery.Health {
	h := cfg.Workers.Health
	return discovery.Health{
		Path: h.Path, Interval: h.Interval, Timeout: h.Timeout,
		UnhealthyAfter: h.UnhealthyAfter, HealthyAfter: h.HealthyAfter,
	}
}

func workerSpecs(specs []config.WorkerSpec) []discovery.Spec {
	out := make([]discovery.Spec, len(specs))
	for i, s := range specs {
		out[i] = discovery.Spec{
			Address: s.Address, Models: s.Models, Adapters: s.Adapters, Group: s.RoutingGroup, Ranks: s.Ranks,
			ID: s.WorkerID(), Drain: s.Drain, KVEvents: s.KVEvents, KVReplay: s.KVReplay, BlockSize: s.BlockSize,
		}
	}
	return out
}

func affinityConfig(cfg *config.Config, replica uint64, logger *slog.Logger, metrics prometheus.Registerer) affinity.Config {
	s := cfg.Session
	c := affinity.Config{
		TTL: s.TTL, MaxSessions: s.MaxSessions, InitTimeout: s.InitTimeout, WaitFor: s.WaitFor,
		Grace: cfg.Workers.Grace, MaxClockSkew: cfg.Replication.MaxClockSkew,
		WriterID: writerID(cfg, replica), Logger: logger, Registerer: metrics,
	}
	if s.Mode == config.ModeSoft {
		c.Mode = affinity.Soft
	}
	switch s.OnWorkerGone {
	case config.WorkerGoneFail:
		c.WhenGone = affinity.Fail
	case config.WorkerGoneWait:
		c.WhenGone = affinity.Wait
	case config.WorkerGoneRebind:
		c.WhenGone = affinity.Rebind
	}
	return c
}

func routingConfig(cfg *config.Config, kv *kvState, metrics prometheus.Registerer) routing.Config {
	return routing.Config{
		SessionHeaders: cfg.Session.Headers,
		GroupHeader:    cfg.Request.RoutingGroup.Header,
		DefaultGroup:   cfg.Request.RoutingGroup.Default,
		ModelHeader:    cfg.Request.Model.Header,
		DefaultModel:   cfg.Request.Model.Default,
		ExplicitTarget: cfg.Request.ExplicitTarget,
		MaxBodyBytes:   int64(cfg.Request.MaxBodyBytes),
		Index:          kv.index,
		Controller:     kv.controller,
		Figures:        kv.figures,
		Weights:        weights(cfg),
		Temperature:    cfg.Routing.Temperature,
		Limits:         routing.Limits(cfg.Routing.Limits),
		Tokenizer:      kv.tokenizer,
		TokenizerURL:   tokenizerURL(cfg.Routing.Tokenizer.URL),
		Registerer:     metrics,
	}
}

func weights(cfg *config.Config) routing.Weights {
	r := cfg.Routing
	return routing.Weights{
		OverlapScoreCredit: r.OverlapScoreCredit, OverlapScoreCreditDecay: r.OverlapScoreCreditDecay, PrefillLoadScale: r.PrefillLoadScale,
		HostCacheHitWeight: r.HostCacheHitWeight, DiskCacheHitWeight: r.DiskCacheHitWeight, SharedCacheMultiplier: r.SharedCacheMultiplier,
		DecodeActiveRequestWeight: r.DecodeActiveRequestWeight, HoledWeight: cfg.KVState.HoledWeight,
	}
}

// tokenizerURL completes a URL without a path by the one that vLLM has.
func tokenizerURL(configured string) string {
	u, err := url.Parse(configured)
	if err != nil || configured == "" || u.Path != "" && u.Path != "/" {
		return configured
	}
	u.Path = "/tokenize"
	return u.String()
}

func extprocConfig(cfg *config.Config, replica uint64, tracing trace.TracerProvider, logger *slog.Logger, metrics prometheus.Registerer) extproc.Config {
	c := extproc.Config{
		ReplicaID:         replica,
		MaxBodyBytes:      int64(cfg.Request.MaxBodyBytes),
		Deadline:          cfg.Request.Deadline,
		MaxRequestTime:    cfg.Request.MaxRequestTime,
		PullBody:          cfg.Envoy.BodyMode == config.BodyNone,
		DestinationHeader: cfg.Envoy.DestinationHeader,
		ModelHeader:       cfg.Request.Model.Header,
		Tracing:           tracing,
		Logger:            logger,
		Registerer:        metrics,
	}
	if cfg.Request.End == config.EndStream {
		c.End = extproc.Stream
	}
	return c
}
