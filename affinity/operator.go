package affinity

import (
	"errors"
	"time"

	"mooring/internal/fleet"
)

// Lookup returns the session's binding, also if its worker cannot be scheduled
// now. It changes nothing and takes no lease. A session without a binding, one
// that is only being initialised included, is not found.
func (t *Table) Lookup(session string) (Entry, bool) {
	now, alive := t.now(), t.alive()
	sh := t.shardOf(session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.mu.entries[session]
	if e == nil {
		return Entry{}, false
	}
	return t.describeLocked(e, now, alive)
}

// describeLocked returns e's binding, or false if there is none at now.
func (t *Table) describeLocked(e *entry, now instant, alive liveness) (Entry, bool) {
	s := e.state
	if s.settle(now); !s.bound() {
		return Entry{}, false
	}
	d := Entry{
		Session:     e.session,
		Partition:   t.partition,
		Target:      s.target,
		Sequence:    s.version.sequence,
		WriterID:    s.version.writer,
		Leases:      int(s.leases),
		ExpiresIn:   t.rules.ttl,
		Schedulable: alive.schedulable(s.target),
	}
	if s.leases == 0 {
		d.ExpiresIn = timeLeft(s.deadline, now)
		d.Idle = max(0, t.rules.ttl-d.ExpiresIn)
	}
	return d, true
}

// Query returns the target that a request of the session would be sent to if it
// came now, without a lease and without any change. False means that it would
// have to choose, or to wait. A request that would be refused gets ErrConflict,
// ErrWorkerGone or ErrInvalidSession.
func (t *Table) Query(session string, requested fleet.Target) (fleet.Target, bool, error) {
	if err := checkSession(session); err != nil {
		return fleet.Target{}, false, err
	}
	now, alive := t.now(), t.alive()
	var s state
	sh := t.shardOf(session)
	sh.mu.Lock()
	if e := sh.mu.entries[session]; e != nil {
		s = e.state
	}
	sh.mu.Unlock()
	s.settle(now)
	switch s.acquire(now, requested, alive, &t.rules) {
	case foundBinding:
		return s.target, true, nil
	case refusedOther:
		return fleet.Target{}, false, ErrConflict
	case refusedTarget:
		return fleet.Target{}, false, ErrWorkerGone
	case refusedGone, refusedUnknown:
		if t.rules.whenGone == Fail {
			return fleet.Target{}, false, ErrWorkerGone
		}
	case foundNothing, foundGone, foundTurn:
	}
	return fleet.Target{}, false, nil
}

// Pin binds the session to target by an operator's order and gives it its full
// life. Requests in flight finish where they are; whoever is choosing for the
// session loses the turn. The target must exist in the partition, in whatever
// state: *UnknownTargetError otherwise. Other errors: ErrInvalidSession, ErrFull.
func (t *Table) Pin(session string, target fleet.Target) (Entry, error) {
	if err := checkSession(session); err != nil {
		return Entry{}, err
	}
	if target.IsZero() {
		return Entry{}, errNoTarget
	}
	alive := t.alive()
	if err := t.checkExists(alive.view, target); err != nil {
		return Entry{}, err
	}
	now, wall := t.now(), t.wallNow()
	d, fx, err := t.pin(session, target, now, wall, alive)
	if errors.Is(err, ErrFull) && t.sweepSome(now) {
		d, fx, err = t.pin(session, target, now, wall, alive)
	}
	t.perform(&fx)
	if err != nil {
		return Entry{}, err
	}
	t.logger.Info("session pinned", "session", HashSession(session), "model", t.partition.Model, "group", t.partition.Group, "target", target.String())
	return d, nil
}

func (t *Table) checkExists(view *fleet.View, target fleet.Target) error {
	members := view.Members(t.partition)
	for _, w := range members {
		if w.Has(target) {
			return nil
		}
	}
	return &UnknownTargetError{Target: target, Partition: t.partition, Workers: members}
}

func (t *Table) pin(session string, target fleet.Target, now instant, wall time.Time, alive liveness) (d Entry, fx effects, err error) {
	sh := t.shardOf(session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, was, ok := sh.openLocked(t, session, now, &fx)
	if !ok {
		return Entry{}, fx, ErrFull
	}
	v, err := t.mint(t.known(e.session, e.version, now), wall)
	if err == nil {
		fx.moved(movePin, e.target, target)
		e.pin(now, target, v, &t.rules)
		fx.announce(EventBound, e, now, &t.rules)
		d, _ = t.describeLocked(e, now, alive)
	}
	sh.closeLocked(t, e, was, now, &fx)
	return d, fx, err
}

// Unpin ends the session's binding by an operator's order and reports whether
// there was one. Requests in flight finish where they are. The event is
// published in any case, since another replica may know a binding. Whoever is
// choosing for the session goes on.
func (t *Table) Unpin(session string) bool {
	if checkSession(session) != nil {
		return false
	}
	now, wall := t.now(), t.wallNow()
	fx := t.unpin(session, now, wall)
	t.perform(&fx)
	t.logger.Info("session unpinned", "session", HashSession(session), "model", t.partition.Model, "group", t.partition.Group, "was_bound", fx.unpinned > 0)
	return fx.unpinned > 0
}

func (t *Table) unpin(session string, now instant, wall time.Time) (fx effects) {
	sh := t.shardOf(session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.mu.entries[session]
	if e == nil {
		t.announceUnbinding(session, version{}, FloorLife, now, wall, &fx)
		return fx
	}
	was := e.earlier()
	fx.count(e.settle(now))
	t.announceUnbinding(session, e.version, FloorLife, now, wall, &fx)
	if e.bound() {
		e.unbind()
		fx.unpinned++
	}
	fx.wake = sh.fileLocked(t, e, was, now)
	return fx
}

// announceUnbinding makes the voiding of all bindings of the session up to now,
// remembered for life or longer, the event to publish. If no version is left to do
// that with, the session is unbound here alone.
func (t *Table) announceUnbinding(session string, known version, life time.Duration, now instant, wall time.Time, fx *effects) {
	v, err := t.mint(t.known(session, known, now), wall)
	if err != nil {
		fx.exhausted = true
		return
	}
	_, life = t.raiseFloor(session, v, now, life)
	fx.event = Event{Kind: EventUnpinned, Life: life, Session: session, Sequence: v.sequence, WriterID: v.writer}
	fx.publish = true
}
