package envoy

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"mooring/internal/fleet"
)

// After a failed write the next attempt comes after firstRetry, and then twice
// as long each time, up to lastRetry. A change of the fleet starts anew. A file
// that was written is looked at again every lookEvery: somebody else may have
// changed it.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	lookEvery  = 2 * time.Second
)

// warnedFor is how long EndpointsFile.Warning tells of a change by somebody else.
const warnedFor = time.Minute

// EndpointsFile keeps the file from which Envoy takes the workers in step with the
// fleet. Make it with NewEndpointsFile. All methods are safe for concurrent use.
type EndpointsFile struct {
	path        string
	live        *fleet.Live
	logger      *slog.Logger
	failed      prometheus.Counter
	overwritten prometheus.Counter
	stale       prometheus.Gauge

	mu struct {
		sync.Mutex
		failures int       // since the last success
		err      error     // of the last attempt
		foreign  time.Time // when a change by somebody else was last put right
	}
}

// NewEndpointsFile makes the keeper of the file at path. A nil logger discards, and
// a nil registerer keeps the metrics from being seen. The metrics are registered
// once: one call for each registerer.
func NewEndpointsFile(path string, live *fleet.Live, logger *slog.Logger, registerer prometheus.Registerer) *EndpointsFile {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	factory := promauto.With(registerer)
	return &EndpointsFile{
		path: path, live: live, logger: logger,
		failed: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_envoy_endpoints_failures_total",
			Help: "Attempts to write Envoy's endpoints file that failed.",
		}),
		overwritten: factory.NewCounter(prometheus.CounterOpts{
			Name: "mooring_envoy_endpoints_overwritten_total",
			Help: "Times that Envoy's endpoints file had been changed or removed by somebody else, and was written anew.",
		}),
		stale: factory.NewGauge(prometheus.GaugeOpts{
			Name: "mooring_envoy_endpoints_stale",
			Help: "1 while Envoy's endpoints file does not say what the fleet is, since it cannot be written.",
		}),
	}
}

// Write puts the fleet as it is now into the file. See WriteEndpoints.
func (k *EndpointsFile) Write() error { return WriteEndpoints(k.path, k.live.View()) }

// Keep keeps the file in step with the fleet until ctx ends, and then returns nil.
// It is to be the file's only writer: what somebody else changes is put right,
// logged and counted. A write that fails is repeated, logged and counted; requests
// to workers that Envoy does not know yet are 503s meanwhile.
func (k *EndpointsFile) Keep(ctx context.Context) error {
	for {
		view, changed := k.live.Snapshot()
		if k.keep(ctx, view, changed) {
			return nil
		}
	}
}

// keep writes one view and returns when it was replaced or, with true, when ctx
// has ended.
func (k *EndpointsFile) keep(ctx context.Context, view *fleet.View, changed <-chan struct{}) (ended bool) {
	content, err := endpointsYAML(view)
	retry, ours := firstRetry, false
	for {
		var wrote bool
		if err == nil {
			wrote, err = put(k.path, content)
		}
		wait := lookEvery
		if err != nil {
			wait, retry = retry, min(2*retry, lastRetry)
			k.notWritten(err, wait)
		} else {
			k.written(wrote && ours)
			retry, ours = firstRetry, true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			err = nil
		case <-changed:
			timer.Stop()
			return false
		case <-ctx.Done():
			timer.Stop()
			return true
		}
	}
}

// written notes a success; foreign says that somebody had changed what was written
// before.
func (k *EndpointsFile) written(foreign bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if foreign {
		k.mu.foreign = time.Now()
		k.overwritten.Inc()
		k.logger.Warn("envoy endpoints were changed or removed by another process, and are written anew; each replica needs a file of its own", "path", k.path)
	}
	if k.mu.failures > 0 {
		k.logger.Info("envoy endpoints written again", "path", k.path, "failures", k.mu.failures)
		k.mu.failures, k.mu.err = 0, nil
		k.stale.Set(0)
	}
}

func (k *EndpointsFile) notWritten(err error, retryIn time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.failures, k.mu.err = k.mu.failures+1, err
	k.failed.Inc()
	k.stale.Set(1)
	k.logger.Error("envoy endpoints not written", "path", k.path, "error", err, "failures", k.mu.failures, "retry_in", retryIn.String())
}

// Warning says what is wrong with the file, "" if nothing is.
func (k *EndpointsFile) Warning() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	ago := time.Since(k.mu.foreign)
	switch {
	case k.mu.err != nil:
		return fmt.Sprintf("envoy.endpoints_file cannot be written, and Envoy does not know the workers as they are now: %v", k.mu.err)
	case ago < warnedFor:
		return fmt.Sprintf("envoy.endpoints_file %s was changed or removed by another process, and written anew %v ago; each replica needs a file of its own",
			k.path, ago.Round(time.Second))
	}
	return ""
}
