package discovery

import (
	"errors"
	"log/slog"
	"time"

	"mooring/internal/fleet"
)

var errReported = errors.New("reported by Envoy: no connection")

// reconcileLocked makes the workers those that the sources list.
func (d *Discovery) reconcileLocked(now time.Time) {
	listings, duplicates := merge(d.mu.sources)
	d.tellDuplicatesLocked(duplicates)
	d.mu.spread = len(listings)
	for _, l := range listings {
		d.listLocked(now, l)
	}
	for id, w := range d.mu.workers {
		if _, ok := listings[id]; !ok && w.listed {
			d.unlistLocked(now, w)
		}
	}
	for _, s := range d.mu.sources {
		d.metrics.doubted.WithLabelValues(s.name).Set(float64(len(s.doubted)))
	}
}

// listLocked makes a worker what its source says it is.
func (d *Discovery) listLocked(now time.Time, l listing) {
	w, known := d.mu.workers[l.ID]
	if known && w.listed && w.equal(l) {
		return
	}
	if !known {
		w = &worker{}
		w.since = now
		d.mu.workers[l.ID] = w
	}
	moved, returned := w.place != l.place, !w.listed
	w.listing = l
	w.list(l.Drain)
	if !known {
		d.tellStateLocked(w, "", "new")
	}
	if moved && l.place.isName() {
		w.address = ""
		w.dislocate()
	}
	switch {
	case l.place.isName() && (moved || returned):
		d.mu.lookups.Set(l.ID, now.Add(d.delay(l.ID)))
		d.askLocked(now, w)
	case moved:
		d.mu.lookups.Remove(l.ID)
		d.relocateLocked(now, w, l.place.at(l.place.ip))
	case returned:
		d.askLocked(now, w)
	}
	d.mu.changed = true
	d.advanceLocked(now, w)
}

// unlistLocked makes a worker vanish.
func (d *Discovery) unlistLocked(now time.Time, w *worker) {
	w.unlist()
	w.doubted = false
	w.question = 0
	d.mu.probes.Remove(w.ID)
	d.mu.lookups.Remove(w.ID)
	d.judgedLocked(w)
	d.advanceLocked(now, w)
}

// relocateLocked gives a worker an address of which nothing is known.
func (d *Discovery) relocateLocked(now time.Time, w *worker, address string) {
	w.address = address
	var settles time.Time
	if d.mu.running && !d.mu.firstRound[w.ID] {
		settles = now.Add(d.cfg.Settle)
	}
	w.relocate(settles)
	d.mu.changed = true
	d.askLocked(now, w)
}

// askLocked begins the probes of a worker anew: whatever is under way is about
// something else.
func (d *Discovery) askLocked(now time.Time, w *worker) {
	d.mu.questions++
	w.question = d.mu.questions
	switch {
	case !w.located:
		d.mu.probes.Remove(w.ID)
	case d.mu.health.off():
		d.mu.probes.Remove(w.ID)
		d.judgedLocked(w)
	default:
		d.mu.probes.Set(w.ID, now.Add(d.delay(w.ID)))
	}
}

// delay returns how long a worker's first probe is put off, so that the workers
// of one answer are not probed in one instant: a millisecond a worker, and an
// interval at most. They keep these distances from then on.
func (d *Discovery) delay(id fleet.WorkerID) time.Duration {
	return share(id, min(time.Duration(d.mu.spread)*time.Millisecond, d.mu.health.Interval))
}

// failedLocked records a failed probe.
func (d *Discovery) failedLocked(now time.Time, w *worker, c cause, err error) {
	d.metrics.probeFailures.WithLabelValues(string(c)).Inc()
	before := w.verdict
	w.fail(d.mu.health)
	w.lastFailure = err
	if before == up && w.verdict == down {
		d.mu.lookups.Hasten(w.ID, now) // it may have moved
	}
	d.advanceLocked(now, w)
}

// advanceLocked lets the worker's state follow from what was recorded, and
// forgets a worker whose grace has ended.
func (d *Discovery) advanceLocked(now time.Time, w *worker) {
	old := w.state
	if changed, why := w.advance(now, d.mu.health); changed {
		d.mu.changed = true
		d.tellStateLocked(w, old.String(), why)
	}
	if w.forgotten(now, d.cfg.Grace) {
		d.mu.deadlines.Remove(w.ID)
		delete(d.mu.workers, w.ID)
		d.mu.changed = true
		d.tellLocked(slog.LevelDebug, "a worker is forgotten", slog.String("worker", w.ID.String()))
		return
	}
	if at, ok := w.next(now, d.cfg.Grace); ok {
		d.mu.deadlines.Set(w.ID, at)
	} else {
		d.mu.deadlines.Remove(w.ID)
	}
}

// judgedLocked takes a worker out of the first round; step ends it after the last.
func (d *Discovery) judgedLocked(w *worker) { delete(d.mu.firstRound, w.ID) }
