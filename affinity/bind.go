package affinity

import (
	"errors"
	"time"

	"mooring/internal/fleet"
)

// Bind says where the request goes.
//
// With the turn to choose, it binds the session to target and wakes those who
// wait; errors are ErrInitialiserLost (too late, or the session was bound
// elsewhere meanwhile by an operator or by another request's failover: acquire
// again) and ErrConflict (target is not what the request itself insisted on).
//
// If another replica bound the session meanwhile and its target can be scheduled
// here, that binding wins over the choice, and Target returns it afterwards.
//
// With a bound target, it tells where the request was dispatched. Hard: another
// target is ErrConflict and the binding stays; but if the bound worker has gone
// since Acquire and WhenGone is Rebind, the session fails over to target, joining
// whoever is choosing for it now, unless it has already been bound elsewhere. A
// failover that finds the table full succeeds and holds nothing. Soft: the
// binding follows the dispatch, unless it has changed since Acquire.
//
// After an error the lease holds nothing, and the request changed nothing.
func (l *Lease) Bind(target fleet.Target) error {
	if l.phase == phaseOver {
		return ErrInitialiserLost
	}
	t := l.table
	fx, err := l.bind(t.now(), t.wallNow(), target)
	t.perform(&fx)
	switch {
	case errors.Is(err, ErrConflict):
		t.metrics.refusedConflict.Inc()
	case errors.Is(err, ErrWorkerGone):
		t.metrics.refusedGone.Inc()
	case errors.Is(err, ErrInitialiserLost):
		t.metrics.refusedLate.Inc()
	}
	return err
}

// Check reports what Bind would say of a dispatch, and changes nothing. It
// refuses, with ErrConflict, only what contradicts a hard binding to a worker
// that can still be scheduled.
func (l *Lease) Check(dispatched fleet.Target) error {
	if l.phase != phaseBound || l.table.rules.mode == Soft || admitsDispatch(l.target, dispatched) || !l.table.alive().schedulable(l.target) {
		return nil
	}
	return ErrConflict
}

func (l *Lease) bind(now instant, wall time.Time, target fleet.Target) (effects, error) {
	fx, err := l.bindHeld(now, wall, target)
	if !errors.Is(err, errDeparted) {
		return fx, err
	}
	// The lease has let go of its entry: by now the session may have another.
	l.table.perform(&fx)
	fx, ok, err := l.failOver(now, wall, target)
	if !ok && l.table.sweepSome(now) {
		fx, _, err = l.failOver(now, wall, target)
	}
	return fx, err
}

// bindHeld binds by what the lease holds, and lets go of that on any error.
func (l *Lease) bindHeld(now instant, wall time.Time, target fleet.Target) (fx effects, err error) {
	t, e := l.table, l.entry
	sh := t.shardOf(e.session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	was := e.earlier()
	fx.count(e.settle(now))
	switch {
	case target.IsZero():
		err = errNoTarget
	case l.phase == phaseChoosing:
		err = l.bindTurnLocked(now, wall, target, &fx)
	default:
		err = l.dispatchLocked(now, wall, target, &fx)
	}
	if err != nil {
		e.drop(l.revision)
		l.phase = phaseOver
	}
	fx.wake = sh.fileLocked(t, e, was, now)
	return fx, err
}

// errDeparted says that a dispatch contradicts a binding to a worker that has
// gone. It does not leave bind.
var errDeparted = errors.New("the bound worker has gone")

func (l *Lease) bindTurnLocked(now instant, wall time.Time, target fleet.Target, fx *effects) error {
	t, e := l.table, l.entry
	if !admitsRequest(target, l.target) {
		return ErrConflict
	}
	switch {
	case e.hasTurn(l.revision) && t.revert != KeptWins && e.keptWins(t.alive()) && admitsRequest(e.target, l.target):
		e.yieldTurn()
		l.holdLocked(e)
		return nil
	case e.hasTurn(l.revision):
		v, err := t.mint(t.known(e.session, e.version, now), wall)
		if err != nil {
			return err
		}
		fx.moved(moveWorkerGone, e.target, target)
		e.bindTurn(now, target, v, &t.rules)
		l.holdLocked(e)
		fx.announce(EventBound, e, now, &t.rules)
		return nil
	case e.isBound(l.revision):
		// A failover joined and kept a lease for this request. If that bound the
		// session elsewhere it is no fault of the client: acquiring again helps.
		l.holdLocked(e)
		if err := l.dispatchLocked(now, wall, target, fx); !errors.Is(err, ErrConflict) {
			return err
		}
		return ErrInitialiserLost
	default:
		return ErrInitialiserLost
	}
}

// holdLocked makes l a lease on e's binding.
func (l *Lease) holdLocked(e *entry) {
	l.entry, l.phase = e, phaseBound
	l.revision, l.target, l.version = e.revision, e.target, e.version
}

func (l *Lease) dispatchLocked(now instant, wall time.Time, target fleet.Target, fx *effects) error {
	t := l.table
	if t.rules.mode == Soft {
		return l.followLocked(now, wall, target, fx)
	}
	switch {
	case admitsDispatch(l.target, target):
		return nil
	case t.alive().schedulable(l.target):
		return ErrConflict
	case t.rules.whenGone != Rebind:
		return ErrWorkerGone
	default:
		return errDeparted
	}
}

// followLocked moves a soft binding after a dispatch, if it is still the one
// that this lease was taken on. Losing that race is no error: the newer binding
// stands, and the request finishes where it is.
func (l *Lease) followLocked(now instant, wall time.Time, target fleet.Target, fx *effects) error {
	t, e := l.table, l.entry
	to := follow(l.target, target)
	if to == l.target || e.turn != nil || !e.isBound(l.revision) || e.version != l.version {
		return nil
	}
	v, err := t.mint(t.known(e.session, e.version, now), wall)
	if err != nil {
		return err
	}
	cause := moveSoft
	if !t.alive().schedulable(e.target) {
		cause = moveWorkerGone
	}
	fx.moved(cause, e.target, to)
	e.rebind(to, v)
	l.holdLocked(e)
	fx.announce(EventBound, e, now, &t.rules)
	return nil
}

// failOver binds the session to the target that the request was dispatched to
// after its bound worker had gone, or reports that there is no room. It never
// waits, since the request may already hold what others wait for: somebody
// else's turn is joined instead.
func (l *Lease) failOver(now instant, wall time.Time, target fleet.Target) (fx effects, ok bool, err error) {
	t, session := l.table, l.entry.session
	sh := t.shardOf(session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, was, ok := sh.openLocked(t, session, now, &fx)
	if !ok {
		return fx, false, nil
	}
	err = l.takeOverLocked(e, now, wall, target, &fx)
	sh.closeLocked(t, e, was, now, &fx)
	return fx, true, err
}

func (l *Lease) takeOverLocked(e *entry, now instant, wall time.Time, target fleet.Target, fx *effects) error {
	t := l.table
	if e.turn == nil && e.bound() && t.alive().schedulable(e.target) {
		if !admitsDispatch(e.target, target) {
			return ErrConflict
		}
		e.lease()
		l.holdLocked(e)
		return nil
	}
	v, err := t.mint(t.known(e.session, e.version, now), wall)
	if err != nil {
		return err
	}
	fx.moved(moveFailover, e.target, target)
	if e.turn != nil {
		e.join(now, target, v, &t.rules)
	} else {
		e.bindAfresh(now, target, v, &t.rules)
	}
	l.holdLocked(e)
	l.moved = true
	fx.announce(EventBound, e, now, &t.rules)
	return nil
}
