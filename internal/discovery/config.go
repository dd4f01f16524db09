package discovery

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is what New needs. Its zero value is valid: no probing, no grace.
type Config struct {
	// Health is how workers are probed until SetHealth says otherwise.
	Health Health
	// Grace is how long a vanished worker is remembered, and how long an answer
	// that removes too much is doubted. 0: neither.
	Grace time.Duration
	// Settle is how long a worker stays unschedulable after its address became
	// known, which is published within 50 ms, if that was after the first round:
	// so that Envoy has the endpoint before the worker is picked. 0: not at all.
	Settle time.Duration
	// Resolve returns the addresses of a host name. nil: the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Transport carries the probes. nil: plain HTTP/1.1 without a proxy and with
	// a bounded number of kept connections.
	Transport http.RoundTripper
	// Logger gets changes of state, doubts and failures of sources. nil: nobody.
	Logger *slog.Logger
	// Registerer takes the metrics. nil: they are not registered.
	Registerer prometheus.Registerer
}

// Health is how workers are probed: GET http://address/path, any 2xx passes.
type Health struct {
	Path           string        // with its leading "/"; "": no probing, a listed worker is active
	Interval       time.Duration // between the starts of two probes of one worker; 0: 2 s
	Timeout        time.Duration // of one probe, connecting included; 0: 1 s
	UnhealthyAfter int           // failures in a row that make an active worker unhealthy; 0: 2
	HealthyAfter   int           // passes in a row that make it active again; 0: 3
}

func (h Health) withDefaults() Health {
	if h.Interval <= 0 {
		h.Interval = 2 * time.Second
	}
	if h.Timeout <= 0 {
		h.Timeout = time.Second
	}
	if h.UnhealthyAfter <= 0 {
		h.UnhealthyAfter = 2
	}
	if h.HealthyAfter <= 0 {
		h.HealthyAfter = 3
	}
	return h
}

func (h Health) off() bool { return h.Path == "" }

func (c Config) withDefaults() Config {
	c.Health = c.Health.withDefaults()
	if c.Resolve == nil {
		c.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
