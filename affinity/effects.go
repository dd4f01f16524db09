package affinity

import (
	"context"
	"log/slog"

	"mooring/internal/fleet"
)

// effects collects under the lock what is to be done after it.
type effects struct {
	wake      chan struct{} // to be closed; nil: nobody waits
	event     Event
	publish   bool // whether event is set
	move      moveCause
	from      fleet.Target // where a move came from
	lost      int          // turns that timed out
	expired   int
	unpinned  int  // by an operator
	neverSent int  // bindings voided since their first request never got there
	exhausted bool // an unbinding could not be published: no version is left
}

// count notes what settle found.
func (fx *effects) count(p passed) {
	if p.lostTurn {
		fx.lost++
	}
	if p.expired {
		fx.expired++
	}
}

// announce makes the session's binding the event to publish.
func (fx *effects) announce(kind EventKind, e *entry, now instant, r *rules) {
	life := r.ttl
	if e.leases == 0 {
		life = max(0, timeLeft(e.deadline, now))
	}
	fx.event = Event{Kind: kind, Session: e.session, Target: e.target, Sequence: e.version.sequence, WriterID: e.version.writer, Life: life}
	fx.publish = true
}

// moved notes that the session's binding went from one target to another.
func (fx *effects) moved(cause moveCause, from, to fleet.Target) {
	if !from.IsZero() && from != to {
		fx.move, fx.from = cause, from
	}
}

// perform carries the effects out. No lock may be held.
func (t *Table) perform(fx *effects) {
	if fx.wake != nil {
		close(fx.wake)
	}
	if fx.publish && t.publish != nil {
		t.publish(t.partition, fx.event)
	}
	t.metrics.count(fx)
	if fx.exhausted {
		t.logger.Error("the unbinding of a session was not published", "model", t.partition.Model, "group", t.partition.Group, "error", ErrSequenceExhausted)
	}
	if fx.move != moveNone && t.logger.Enabled(context.Background(), slog.LevelDebug) {
		t.logger.Debug("session moved", "session", HashSession(fx.event.Session), "model", t.partition.Model, "group", t.partition.Group,
			"cause", fx.move.String(), "from", fx.from.String(), "to", fx.event.Target.String())
	}
}
