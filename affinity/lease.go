package affinity

import (
	"strconv"
	"time"

	"mooring/internal/fleet"
)

// Outcome says how a request ended.
type Outcome uint8

const (
	// Completed: the worker answered in full. Also: how it ended is not known.
	Completed Outcome = iota
	// ClientAborted: the client left before the end.
	ClientAborted
	// UpstreamFailed: the worker was reached and failed.
	UpstreamFailed
	// NeverSent: the request did not reach the worker: it was refused after the
	// pick, or the connection failed.
	NeverSent
)

// String returns a lower-case word.
func (o Outcome) String() string {
	switch o {
	case Completed:
		return "completed"
	case ClientAborted:
		return "client_aborted"
	case UpstreamFailed:
		return "upstream_failed"
	case NeverSent:
		return "never_sent"
	default:
		return "outcome(" + strconv.Itoa(int(o)) + ")"
	}
}

// phase is what a Lease stands for.
type phase uint8

const (
	phaseOver     phase = iota // nothing: the zero Lease, and after its end
	phaseChoosing              // an initialiser's turn
	phaseBound                 // one use of a binding
)

// Lease is one request's hold on a session: the turn to choose its target, then
// one use of its binding. It belongs to one request: it must not be copied once
// in use, and its methods must not be called concurrently. The zero Lease is
// valid and holds nothing.
type Lease struct {
	table    *Table
	entry    *entry
	target   fleet.Target // choosing: what the request insists on; bound: what it got
	version  version      // bound: of that target
	revision uint32
	phase    phase
	moved    bool
}

// Target returns the target that the session is bound to for this request, or
// false if there is none: the caller has the turn to choose and must Bind or
// Release, or the lease holds nothing.
func (l *Lease) Target() (fleet.Target, bool) {
	if l.phase != phaseBound {
		return fleet.Target{}, false
	}
	return l.target, true
}

// Moved reports whether the session is changing its worker by this lease
// because the one that it was bound to has gone.
func (l *Lease) Moved() bool { return l.moved }

// Release ends the lease; o says how the request ended. It gives the binding its
// full life again, unless the request never reached the worker. A turn without
// Bind is passed on to those who wait, and the session is what it was before. If
// NeverSent ends the first use that a binding ever had, and no other request has
// had a lease on it, here or as far as is known at another replica, the session is
// unbound. Release never blocks; only its first call does anything.
func (l *Lease) Release(o Outcome) {
	if l.phase == phaseOver {
		return
	}
	t := l.table
	var wall time.Time
	if o == NeverSent {
		wall = t.wallNow()
	}
	fx := l.release(t.now(), wall, o)
	t.perform(&fx)
}

func (l *Lease) release(now instant, wall time.Time, o Outcome) (fx effects) {
	t, e := l.table, l.entry
	sh := t.shardOf(e.session)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	was := e.earlier()
	fx.count(e.settle(now))
	if l.phase == phaseChoosing {
		e.drop(l.revision)
	} else {
		l.endLocked(now, wall, o, &fx)
	}
	l.phase = phaseOver
	fx.wake = sh.fileLocked(t, e, was, now)
	return fx
}

func (l *Lease) endLocked(now instant, wall time.Time, o Outcome, fx *effects) {
	t, e := l.table, l.entry
	known := e.version
	switch e.release(now, l.revision, o, &t.rules) {
	case endedUse:
		fx.announce(EventUsed, e, now, &t.rules)
	case endedBinding:
		fx.neverSent++
		t.announceUnbinding(e.session, known, min(t.rules.ttl, maxVoidLife), now, wall, fx)
	case endedStale, endedUnsent:
	}
}
