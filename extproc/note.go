package extproc

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"mooring/affinity"
	"mooring/routing"
)

// line is what the debug line of a request says besides its session.
type line struct {
	reason string
	code   int
	pick   time.Duration
	body   int
}

// note counts and logs what a step says about the request.
func (x *exchange) note(s step) {
	if s.fault != "" {
		x.faulty(s)
	}
	if n := x.machine.repeats; n > 0 {
		x.metrics.oddities.WithLabelValues(oddRepeat).Add(float64(n))
		x.machine.repeats = 0
	}
	if s.refusal != nil {
		x.count(s.refusal.Reason, statusCode(s.refusal.Kind))
	}
	if x.leased && x.machine.response.started && !x.began {
		x.began = true
		x.route.Began()
	}
	if x.leased && x.cfg.End == Stream && x.machine.response.ended {
		x.ledger.end(x.lease, affinity.Completed, byStream)
	}
}

// faulty tells of a stream that breaks the protocol, or that cannot work as it
// is configured.
func (x *exchange) faulty(s step) {
	if !s.setup {
		x.metrics.oddities.WithLabelValues(oddViolation).Inc()
		return
	}
	x.metrics.oddities.WithLabelValues(oddMode).Inc()
	if x.complain.due(s.fault, time.Now()) {
		x.cfg.Logger.Error("the ext_proc filter's configuration cannot work", "problem", s.fault)
	}
}

func (x *exchange) count(reason routing.Reason, code int) {
	x.line.reason, x.line.code = reason.String(), code
	x.metrics.requests.WithLabelValues(x.line.reason, strconv.Itoa(code)).Inc()
}

// log writes the request's debug line.
func (x *exchange) log() {
	if !x.cfg.Logger.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	session, worker, partition, overlap, cost := "", "", "", 0, 0.0
	if x.req.Session != "" {
		session = affinity.HashSession(x.req.Session)
	}
	if x.route != nil {
		worker, partition = x.route.Target.String(), x.route.Partition.String()
		overlap, cost = x.route.Overlap, x.route.Cost
	}
	x.cfg.Logger.LogAttrs(context.Background(), slog.LevelDebug, "request",
		slog.String("reason", x.line.reason), slog.Int("code", x.line.code), slog.String("session", session),
		slog.String("partition", partition), slog.String("worker", worker), slog.Uint64("lease", x.lease),
		slog.Duration("pick", x.line.pick), slog.Int("body_bytes", x.line.body),
		slog.Int("overlap", overlap), slog.Float64("cost", cost),
		slog.Bool("restricted", x.req.Restricted), slog.Int("subset", len(x.req.Subset)))
}
