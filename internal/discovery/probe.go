package discovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Bounds of what probes may cost.
const (
	maxProbes      = 512         // in flight
	maxKeptConns   = 512         // idle connections kept over all workers, one each
	maxProbeBody   = 64 << 10    // bytes read, and thrown away
	maxProbeHeader = 64 << 10    // bytes
	keepConn       = time.Minute // idle
)

// cause is why a probe failed. It is a metric's label.
type cause string

const (
	passed        cause = ""
	causeError    cause = "error"    // no connection, or no HTTP
	causeTimeout  cause = "timeout"  // no answer in time
	causeStatus   cause = "status"   // an answer, but no 2xx
	causeReported cause = "reported" // Envoy could not connect
)

var causes = [...]cause{causeError, causeTimeout, causeStatus, causeReported}

// newTransport returns the transport of the probes that are made until ctx ends.
// It keeps a connection to each worker of a fleet of usual size; in a larger one
// the kept connections are not worth their two goroutines each, and most probes
// make their own.
func newTransport(ctx context.Context) *http.Transport {
	dialer := &net.Dialer{KeepAlive: -1}
	return &http.Transport{
		Proxy: nil, // the environment's proxy is not for workers
		// http.Transport dials without the request's deadline, so that a later
		// request can have the connection. To a worker that drops packets such
		// dials would pile up.
		DialContext: func(request context.Context, network, address string) (net.Conn, error) {
			deadline, _ := request.Value(deadlineKey{}).(time.Time)
			dial, cancel := context.WithDeadline(ctx, deadline)
			defer cancel()
			return dialer.DialContext(dial, network, address)
		},
		DisableCompression:     true,
		MaxIdleConns:           maxKeptConns,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        keepConn,
		MaxResponseHeaderBytes: maxProbeHeader,
	}
}

// deadlineKey is the context key of a probe's deadline, a time.Time.
type deadlineKey struct{}

// probeOnce asks. The error says more than the cause, for the log. Redirects
// are answers that are no 2xx: it is the worker itself that must be well.
func probeOnce(ctx context.Context, transport http.RoundTripper, url string, timeout time.Duration) (cause, error) {
	deadline := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	ctx = context.WithValue(ctx, deadlineKey{}, deadline)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return causeError, err
	}
	req.Header.Set("User-Agent", "mooring")
	resp, err := transport.RoundTrip(req)
	switch {
	case err != nil && (errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil):
		return causeTimeout, fmt.Errorf("no answer within %v", timeout)
	case err != nil:
		return causeError, err
	}
	defer resp.Body.Close()
	// Only a body that was read to its end leaves a connection to keep. Whether
	// that works says nothing about the worker.
	_, _ = io.CopyN(io.Discard, resp.Body, maxProbeBody)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return causeStatus, fmt.Errorf("status %d", resp.StatusCode)
	}
	return passed, nil
}
