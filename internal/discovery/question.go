package discovery

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"mooring/internal/fleet"
)

// probeQuestion is one probe to be made.
type probeQuestion struct {
	id       fleet.WorkerID
	question uint64
	url      string
	timeout  time.Duration
}

// lookupQuestion is one name to be resolved.
type lookupQuestion struct {
	id    fleet.WorkerID
	place place
}

func (d *Discovery) dueProbesLocked(now time.Time) []probeQuestion {
	var due []probeQuestion
	h := d.mu.health
	for d.mu.probing < maxProbes {
		id, late, ok := d.mu.probes.Take(now)
		if !ok {
			break
		}
		if late > h.Interval {
			d.metrics.lateProbes.Inc()
		}
		w := d.mu.workers[id]
		w.probed = now
		d.mu.probing++
		due = append(due, probeQuestion{id, w.question, "http://" + w.address + h.Path, h.Timeout})
	}
	return due
}

// probe asks a worker and takes its answer down.
func (d *Discovery) probe(ctx context.Context, transport http.RoundTripper, q probeQuestion) {
	c, err := probeOnce(ctx, transport, q.url, q.timeout)
	if ctx.Err() != nil {
		return // it was Run that gave up
	}
	now := time.Now()
	d.mu.Lock()
	defer d.leave()
	d.mu.probing--
	d.poke()
	w, ok := d.mu.workers[q.id]
	if !ok || w.question != q.question {
		return
	}
	d.mu.probes.Set(q.id, w.probed.Add(d.mu.health.Interval))
	if c == passed {
		w.pass(d.mu.health)
		d.advanceLocked(now, w)
	} else {
		d.failedLocked(now, w, c, err)
	}
	d.judgedLocked(w)
}

func (d *Discovery) dueLookupsLocked(now time.Time) []lookupQuestion {
	var due []lookupQuestion
	for d.mu.resolving < maxLookups {
		id, _, ok := d.mu.lookups.Take(now)
		if !ok {
			break
		}
		d.mu.resolving++
		due = append(due, lookupQuestion{id, d.mu.workers[id].place})
	}
	return due
}

// resolve looks a worker's name up and takes the answer down.
func (d *Discovery) resolve(ctx context.Context, q lookupQuestion) {
	ip, several, err := lookUp(ctx, d.cfg.Resolve, q.place.host)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	d.mu.Lock()
	defer d.leave()
	d.mu.resolving--
	d.poke()
	w, ok := d.mu.workers[q.id]
	if !ok || !w.listed || w.place != q.place {
		return
	}
	d.resolvedLocked(now, w, ip, several, err)
	after := lookupEvery
	if !w.located || w.verdict != up && !d.mu.health.off() {
		after = lookupSooner
	}
	d.mu.lookups.Set(q.id, now.Add(after))
}

// resolvedLocked records what a lookup found: of several addresses the first.
func (d *Discovery) resolvedLocked(now time.Time, w *worker, ip netip.Addr, several int, err error) {
	name := slog.String("name", w.Address)
	if err != nil {
		d.metrics.lookupFailures.Inc()
		if !w.lookupFailing {
			w.lookupFailing = true
			d.tellLocked(slog.LevelWarn, "a worker's name does not resolve; its last address stays, if it had one",
				slog.String("worker", w.ID.String()), name, slog.String("address", w.address), slog.Any("error", err))
		}
		if !w.located {
			d.judgedLocked(w)
		}
		return
	}
	w.lookupFailing = false
	address := w.place.at(ip)
	if address == w.address {
		return
	}
	if several > 1 {
		d.tellLocked(slog.LevelWarn, "a worker's name has several addresses; all requests go to the first", name,
			slog.Int("addresses", several), slog.String("address", address))
	}
	d.relocateLocked(now, w, address)
	d.advanceLocked(now, w)
}
