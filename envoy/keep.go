package envoy

import (
	"context"
	"log/slog"
	"time"

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
// fails is repeated and logged with the number of failures since the last
// success; requests to workers that Envoy does not know yet are 503s meanwhile.
// A nil logger discards.
func KeepEndpoints(ctx context.Context, path string, live *fleet.Live, logger *slog.Logger) error {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	failures := 0
	for {
		view, changed := live.Snapshot()
		if keepView(ctx, path, view, changed, &failures, logger) {
			return nil
		}
	}
}

// keepView writes one view and returns when it was replaced or, with true, when
// ctx has ended.
func keepView(ctx context.Context, path string, view *fleet.View, changed <-chan struct{}, failures *int, logger *slog.Logger) (ended bool) {
	wait := firstRetry
	for {
		err := WriteEndpoints(path, view)
		if err == nil {
			if *failures > 0 {
				logger.Info("envoy endpoints written again", "path", path, "failures", *failures)
				*failures = 0
			}
			select {
			case <-changed:
				return false
			case <-ctx.Done():
				return true
			}
		}
		*failures++
		logger.Error("envoy endpoints not written", "path", path, "error", err, "failures", *failures, "retry_in", wait.String())
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
