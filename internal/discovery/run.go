package discovery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"mooring/internal/fleet"
)

// Run probes the workers, resolves their names and keeps the clock, until ctx
// ends. It returns nil when all it started has ended. It may be called once.
func (d *Discovery) Run(ctx context.Context) error {
	if !d.begin() {
		return errors.New("discovery: Run was called before")
	}
	transport := d.cfg.Transport
	if transport == nil {
		own := newTransport(ctx)
		defer own.CloseIdleConnections()
		transport = own
	}
	var questions sync.WaitGroup
	defer questions.Wait()

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-d.wake:
		}
		now := time.Now()
		due := d.step(now)
		for _, p := range due.probes {
			questions.Go(func() { d.probe(ctx, transport, p) })
		}
		for _, l := range due.lookups {
			questions.Go(func() { d.resolve(ctx, l) })
		}
		if due.next.IsZero() {
			timer.Stop() // wake will tell
		} else {
			timer.Reset(due.next.Sub(now))
		}
	}
}

// begin opens the first round. It reports false if it was opened before.
func (d *Discovery) begin() bool {
	d.mu.Lock()
	defer d.leave()
	if d.mu.running {
		return false
	}
	d.mu.running = true
	d.mu.firstRound = make(map[fleet.WorkerID]bool)
	for id, w := range d.mu.workers {
		if w.listed && (!w.located || !d.mu.health.off()) {
			d.mu.firstRound[id] = true
		}
	}
	return true
}

// work is what Run has to do now, and when to look again (zero: when woken).
type work struct {
	probes  []probeQuestion
	lookups []lookupQuestion
	next    time.Time
}

// step does what the clock demands and returns what is to be asked.
func (d *Discovery) step(now time.Time) work {
	d.mu.Lock()
	defer d.leave()
	d.believeLocked(now)
	for {
		id, _, ok := d.mu.deadlines.Take(now)
		if !ok {
			break
		}
		d.advanceLocked(now, d.mu.workers[id])
	}
	due := work{probes: d.dueProbesLocked(now), lookups: d.dueLookupsLocked(now)}
	d.endFirstRoundLocked(now)
	due.next = d.publishDueLocked(now)
	sooner := func(at time.Time) {
		if due.next.IsZero() || at.Before(due.next) {
			due.next = at
		}
	}
	for _, s := range d.mu.sources {
		if !s.settles.IsZero() {
			sooner(s.settles)
		}
	}
	if at, ok := d.mu.deadlines.Next(); ok {
		sooner(at)
	}
	// While all slots are taken, an answer wakes Run.
	if at, ok := d.mu.probes.Next(); ok && d.mu.probing < maxProbes {
		sooner(at)
	}
	if at, ok := d.mu.lookups.Next(); ok && d.mu.resolving < maxLookups {
		sooner(at)
	}
	return due
}

// endFirstRoundLocked ends the first round when all are judged. Its outcome is in
// the view by then.
func (d *Discovery) endFirstRoundLocked(now time.Time) {
	if d.mu.firstRound == nil || len(d.mu.firstRound) > 0 {
		return
	}
	d.publishLocked(now)
	d.mu.firstRound = nil
	close(d.settled)
}

// believeLocked ends the doubts whose time has come.
func (d *Discovery) believeLocked(now time.Time) {
	believed := 0
	for _, s := range d.mu.sources {
		n := s.believe(now)
		if n > 0 {
			d.tellLocked(slog.LevelWarn, "a doubted source of workers is believed after the grace",
				slog.String("source", s.name), slog.Int("removed", n))
		}
		believed += n
	}
	if believed > 0 {
		d.reconcileLocked(now)
	}
}
