package affinity

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync/atomic"
	"time"

	"mooring/internal/fleet"
)

// Table holds the sessions of one partition. A Resolver makes it; all methods
// are safe for concurrent use.
type Table struct {
	partition fleet.Partition
	rules     rules
	waitFor   time.Duration
	limit     int64
	writer    uint64
	wallNow   func() time.Time
	clockLead time.Duration
	publish   func(fleet.Partition, Event)
	revert    Rule
	live      *fleet.Live
	epoch     time.Time  // shared by all tables of the resolver
	sequence  *sequencer // likewise
	metrics   *metrics   // likewise
	logger    *slog.Logger

	seed    maphash.Seed
	shards  []shard // a power of two
	floors  *floors
	digest  digest
	entries atomic.Int64
	waiters atomic.Int64

	madeRoom atomic.Int64 // when sweepForReplicas last swept; 0: never
}

// shardCount is how many locks a table has: see BenchmarkHit, where one lock is
// slower from two goroutines on.
const shardCount = 64

func newTable(r *Resolver, p fleet.Partition, shards int) *Table {
	t := &Table{
		partition: p,
		rules:     rules{mode: r.cfg.Mode, ttl: r.cfg.TTL, initTimeout: r.cfg.InitTimeout, whenGone: r.cfg.WhenGone, grace: r.cfg.Grace},
		waitFor:   r.cfg.WaitFor,
		limit:     int64(r.cfg.MaxSessions),
		writer:    r.cfg.WriterID,
		wallNow:   r.cfg.WallNow,
		clockLead: clockLead(r.cfg.MaxClockSkew),
		publish:   r.cfg.Publish,
		revert:    r.cfg.TestingOnlyRevert,
		live:      r.live,
		epoch:     r.epoch,
		sequence:  &r.sequence,
		metrics:   r.metrics,
		logger:    r.cfg.Logger,
		seed:      maphash.MakeSeed(),
		shards:    make([]shard, shards),
		floors:    newFloors(r.cfg.MaxSessions),
	}
	for i := range t.shards {
		t.shards[i].mu.entries = make(map[string]*entry)
	}
	return t
}

func (t *Table) now() instant { return instant(time.Since(t.epoch)) }

func timeLeft(deadline, now instant) time.Duration { return time.Duration(deadline - now) }

func (t *Table) shardOf(session string) *shard {
	return &t.shards[maphash.String(t.seed, session)&uint64(len(t.shards)-1)]
}

// alive returns who can be scheduled now.
func (t *Table) alive() liveness { return liveness{view: t.live.View(), partition: t.partition} }

// reserve takes one of the table's places for an entry, up to a limit.
func (t *Table) reserve(limit int64) bool {
	for {
		n := t.entries.Load()
		if n >= limit {
			return false
		}
		if t.entries.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// mint makes a version above the one that is known.
func (t *Table) mint(known version, wall time.Time) (version, error) {
	seq, ok := t.sequence.next(wall, t.clockLead, known.sequence)
	if !ok {
		return version{}, ErrSequenceExhausted
	}
	return version{sequence: seq, writer: t.writer}, nil
}

// Acquire takes a lease on the session's binding or, if there is none that can
// be used, the turn to choose one: see Lease.Target. The caller owns the Lease
// and must Release it. requested, if not zero, is the target that the request
// itself insists on.
//
// Acquire blocks while another request of the session is choosing and, with
// WhenGone Wait, while the bound worker is away; never beyond ctx. Otherwise it
// ignores ctx. Errors: ErrInvalidSession, ErrFull, ErrWorkerGone, ErrConflict,
// and the error of ctx if that ended the waiting. After an error nothing has
// changed and there is nothing to release.
func (t *Table) Acquire(ctx context.Context, session string, requested fleet.Target) (Lease, error) {
	if err := checkSession(session); err != nil {
		t.metrics.refusedInvalid.Inc()
		return Lease{}, err
	}
	var giveUp instant // with WhenGone Wait, once the worker was found to be gone
	for swept := false; ; {
		now := t.now()
		a := t.tryAcquire(now, session, requested)
		switch {
		case a.full:
			if !swept && t.sweepSome(now) {
				swept = true
				continue
			}
			t.metrics.refusedFull.Inc()
			return Lease{}, ErrFull
		case a.finding == foundBinding:
			return a.lease, nil
		case a.finding == foundNothing, a.finding == foundGone:
			a.lease.moved = a.lease.moved || giveUp != 0
			return a.lease, nil
		case a.finding == foundTurn:
			if err := t.await(ctx, &a, timeLeft(a.until, now)); err != nil {
				return Lease{}, err
			}
			continue
		case a.finding == refusedUnknown, a.finding == refusedGone && t.rules.whenGone == Wait:
			if giveUp == 0 {
				giveUp = now + instant(t.waitFor)
			}
			if now < giveUp {
				if err := t.await(ctx, &a, timeLeft(giveUp, now)); err != nil {
					t.metrics.refusedGone.Inc()
					return Lease{}, fmt.Errorf("%w: %w", ErrWorkerGone, err)
				}
				continue
			}
		}
		return Lease{}, t.refuse(a.finding)
	}
}

func (t *Table) refuse(f finding) error {
	if f == refusedOther {
		t.metrics.refusedConflict.Inc()
		return ErrConflict
	}
	t.metrics.refusedGone.Inc()
	return ErrWorkerGone
}

// attempt is what one try to acquire came to.
type attempt struct {
	full    bool // no room for the session; the rest is not set
	finding finding
	lease   Lease
	wake    <-chan struct{} // closed when trying again may help
	fleet   <-chan struct{} // likewise; nil with foundTurn
	until   instant         // with foundTurn: when the turn is lost
}

func (t *Table) tryAcquire(now instant, session string, requested fleet.Target) (a attempt) {
	var fx effects
	sh := t.shardOf(session)
	sh.mu.Lock()
	e, was, ok := sh.openLocked(t, session, now, &fx)
	if !ok {
		sh.mu.Unlock()
		return attempt{full: true}
	}
	view, changed := t.live.Snapshot()
	a.finding = e.acquire(now, requested, liveness{view: view, partition: t.partition}, &t.rules)
	switch a.finding {
	case foundBinding:
		a.lease = Lease{table: t, entry: e, phase: phaseBound, revision: e.revision, target: e.target, version: e.version}
	case foundNothing, foundGone:
		a.lease = Lease{table: t, entry: e, phase: phaseChoosing, revision: e.turn.revision, target: requested, moved: a.finding == foundGone}
	case foundTurn:
		a.wake, a.until = e.waitLocked(), e.turn.deadline
	case refusedGone, refusedUnknown:
		a.wake, a.fleet = e.waitLocked(), changed
	case refusedTarget, refusedOther:
	}
	sh.closeLocked(t, e, was, now, &fx)
	sh.mu.Unlock()
	t.perform(&fx)
	return a
}

// await blocks until trying again may help or d has passed, which both return
// nil, or until ctx is done.
func (t *Table) await(ctx context.Context, a *attempt, d time.Duration) error {
	t.waiters.Add(1)
	defer t.waiters.Add(-1)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-a.wake:
	case <-a.fleet:
	case <-timer.C:
	case <-ctx.Done():
	}
	// A request that is over must not take a lease, even if it was woken too.
	return ctx.Err()
}

// sweepSome makes room: it sweeps a batch of every shard and reports whether a
// place is free now.
func (t *Table) sweepSome(now instant) bool { return t.sweepSomeTo(now, t.limit) }

// sweepSomeTo is sweepSome for a table of another limit.
func (t *Table) sweepSomeTo(now instant, limit int64) bool {
	for i := range t.shards {
		t.shards[i].sweep(t, now)
	}
	return t.entries.Load() < limit
}

// sweep removes all that has ended by now. It takes the shards in turn, batch by
// batch: taking one lock again and again would starve those who wait for it.
func (t *Table) sweep(now instant) {
	for more := true; more; {
		more = false
		for i := range t.shards {
			more = t.shards[i].sweep(t, now) || more
		}
	}
}

// counts returns how many bindings and leases there are; a binding that has
// expired counts until it is swept.
func (t *Table) counts() (bindings, leases int) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		bindings += sh.mu.bound
		leases += sh.mu.leases
		sh.mu.Unlock()
	}
	return bindings, leases
}
