package envoy

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"mooring/internal/fleet"
)

// After a failed write the next attempt comes after firstRetry, and then twice
// as long each time, up to lastRetry. A change of the fleet starts anew.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// KeepEndpoints keeps the endpoints file at path in step with the fleet until
// ctx ends, and then returns nil. It is the file's only writer. A write that
// fails is repeated, logged and counted; requests to workers that Envoy does not
// know yet are 503s meanwhile. A nil logger discards, and a nil registerer keeps
// the metrics from being seen. The metrics are registered once: one call for
// each registerer.
func KeepEndpoints(ctx context.Context, path string, live *fleet.Live, logger *slog.Logger, registerer prometheus.Registerer) error {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	k := &keeper{path: path, logger: logger}
	factory := promauto.With(registerer)
	k.failed = factory.NewCounter(prometheus.CounterOpts{
		Name: "mooring_envoy_endpoints_failures_total",
		Help: "Attempts to write Envoy's endpoints file that failed.",
	})
	k.stale = factory.NewGauge(prometheus.GaugeOpts{
		Name: "mooring_envoy_endpoints_stale",
		Help: "1 while Envoy's endpoints file does not say what the fleet is, since it cannot be written.",
	})
	for {
		view, changed := live.Snapshot()
		if k.keep(ctx, view, changed) {
			return nil
		}
	}
}

// keeper writes one endpoints file. Owned by KeepEndpoints.
type keeper struct {
	path     string
	logger   *slog.Logger
	failed   prometheus.Counter
	stale    prometheus.Gauge
	failures int // since the last success
}

// keep writes one view and returns when it was replaced or, with true, when ctx
// has ended.
func (k *keeper) keep(ctx context.Context, view *fleet.View, changed <-chan struct{}) (ended bool) {
	wait := firstRetry
	for {
		err := WriteEndpoints(k.path, view)
		if err == nil {
			k.written()
			select {
			case <-changed:
				return false
			case <-ctx.Done():
				return true
			}
		}
		k.notWritten(err, wait)
		retry := time.NewTimer(wait)
		select {
		case <-retry.C:
			wait = min(2*wait, lastRetry)
		case <-changed:
			retry.Stop()
			return false
		case <-ctx.Done():
			retry.Stop()
			return true
		}
	}
}

func (k *keeper) written() {
	if k.failures == 0 {
		return
	}
	k.logger.Info("envoy endpoints written again", "path", k.path, "failures", k.failures)
	k.failures = 0
	k.stale.Set(0)
}

func (k *keeper) notWritten(err error, retryIn time.Duration) {
	k.failures++
	k.failed.Inc()
	k.stale.Set(1)
	k.logger.Error("envoy endpoints not written", "path", k.path, "error", err, "failures", k.failures, "retry_in", retryIn.String())
}
