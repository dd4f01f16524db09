package reconcile

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"mooring/kvstate"
)

// perform does what the core wants done: the projection first, so that what must
// not be used any more is not, then the index, and then what takes time, each on a
// goroutine of its own that answers by an input.
func (r *Reconciler) perform(ctx context.Context, fx effects) {
	r.metrics.resolves.Add(float64(fx.resolves))
	for _, no := range fx.refused {
		r.metrics.refused.WithLabelValues(string(no)).Inc()
	}
	r.publish(fx.verdicts)
	for i := range fx.edits {
		if ix, ok := r.cfg.Index.Partition(fx.edits[i].partition); ok {
			fx.edits[i].perform(ix)
		}
	}
	for _, p := range fx.unused {
		r.cfg.Index.Drop(p)
	}
	for _, job := range fx.restores {
		r.tasks.Go(func() { r.restore(ctx, &job) })
	}
	for _, id := range fx.hangUps {
		r.hangUp(id)
	}
	for _, q := range fx.calls {
		r.call(ctx, q)
	}
	for _, s := range fx.streams {
		r.listen(ctx, s)
	}
}

// publish projects what was resolved, all at once, and tells of the changes.
func (r *Reconciler) publish(vs []verdict) {
	if len(vs) == 0 {
		return
	}
	rs := make([]kvstate.Resolution, len(vs))
	for i, v := range vs {
		rs[i] = v.now
	}
	report := r.cfg.Controller.Update(rs...)
	for _, conflict := range report.Conflicts {
		r.cfg.Logger.Error("kv state conflict", "error", conflict)
	}
	for _, v := range vs {
		if v.now.State == v.before.State && v.now.Worker == v.before.Worker && (v.now.Reason == v.before.Reason || v.before.Reason == 0) {
			continue // the same, or new and not ready yet
		}
		args := []any{"owner", v.now.Owner.Key().String(), "resolution", v.now.State.String(), "before", v.before.State.String()}
		if v.now.State == kvstate.Ready {
			args = append(args, "worker", v.now.Worker.String())
		} else {
			args = append(args, "reason", v.now.Reason.String())
		}
		if v.problem != nil {
			args = append(args, "problem", v.problem.Error())
		}
		level := slog.LevelInfo
		if v.quiet {
			level = slog.LevelDebug
		} else {
			r.traceChange(&v)
		}
		r.cfg.Logger.Log(context.Background(), level, "cache owner resolved", args...)
	}
}

// traceChange makes a span without length of a changed resolution.
func (r *Reconciler) traceChange(v *verdict) {
	_, span := r.tracer.Start(context.Background(), "kvstate.resolve", trace.WithAttributes(
		attribute.String("mooring.kvstate.owner", v.now.Owner.Key().String()),
		attribute.String("mooring.kvstate.before", v.before.State.String()),
		attribute.String("mooring.kvstate.resolution", v.now.State.String()),
		attribute.String("mooring.kvstate.reason", v.now.Reason.String()),
		attribute.String("mooring.worker", v.now.Worker.String())))
	span.End()
}

// restore puts a recovered state into the index when it is its turn.
func (r *Reconciler) restore(ctx context.Context, job *restore) {
	select {
	case r.restoring <- struct{}{}:
	case <-ctx.Done():
		return
	}
	if r.cfg.BlockSize > 0 { // what is configured comes before what a source says
		r.cfg.Index.Open(job.partition).SetBlockSize(r.cfg.BlockSize)
	}
	err := job.perform(r.cfg.Index)
	<-r.restoring
	r.send(ctx, func(c *core) { c.restored(time.Now(), job.call, err) })
}

func (r *Reconciler) hangUp(id uint64) {
	if cancel, ok := r.calls[id]; ok {
		cancel()
		delete(r.calls, id)
	}
}

// call asks an agent, and answers with what it says.
func (r *Reconciler) call(ctx context.Context, q call) {
	calling, cancel := context.WithCancel(ctx)
	r.calls[q.id] = cancel
	r.tasks.Go(func() {
		defer cancel()
		began := time.Now()
		answer, err := r.ask(calling, &q)
		r.metrics.asked(q.question, time.Since(began), err)
		r.send(ctx, func(c *core) {
			delete(r.calls, q.id)
			c.answered(time.Now(), q.id, answer, err)
		})
	})
}

// ask makes a call, a recovery inside a span.
func (r *Reconciler) ask(ctx context.Context, q *call) (kvstate.QueryResponse, error) {
	if q.question == askStatus {
		return r.control.ask(ctx, q)
	}
	ctx, span := r.tracer.Start(ctx, "kvstate.recover", trace.WithAttributes(
		attribute.String("mooring.kvstate.question", q.question.String()),
		attribute.String("mooring.kvstate.owner", q.owner.Key().String())))
	defer span.End()
	answer, err := r.control.ask(ctx, q)
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		r.cfg.Logger.Debug("kv state recovery failed", "owner", q.owner.Key().String(), "question", q.question.String(), "error", err)
	}
	return answer, err
}

// listen opens or closes the stream of live events of an owner.
func (r *Reconciler) listen(ctx context.Context, s stream) {
	if stop, ok := r.streams[s.owner]; ok {
		stop()
		delete(r.streams, s.owner)
	}
	if s.endpoint == "" {
		return
	}
	listening, stop := context.WithCancel(ctx)
	r.streams[s.owner] = stop
	l := &listener{
		endpoint: s.endpoint, logger: r.cfg.Logger,
		events: func(events []kvstate.RouterEvent) {
			r.send(listening, func(c *core) { c.heard(time.Now(), s.owner, s.id, events) })
		},
		connected: func(now bool) {
			r.send(listening, func(c *core) { c.streaming(s.owner, s.id, now) })
		},
		refused: func(err error) {
			r.metrics.refused.WithLabelValues(string(undecodable)).Inc()
			r.send(listening, func(c *core) { c.garbled(s.owner, s.id, err) })
		},
	}
	r.tasks.Go(func() {
		defer stop()
		l.run(listening)
	})
}
