package discovery

import (
	"time"

	"mooring/internal/fleet"
)

// publishGap is the least time between two views that probes, names and the
// clock cause. A view costs time in proportion to the fleet and wakes everybody
// who watches it; when a large fleet starts, thousands of workers change within
// a second.
const publishGap = 50 * time.Millisecond

// publishLocked publishes a view if anything in it changed. It is called with
// the lock held, since views must come in order; Publish does not block.
func (d *Discovery) publishLocked(now time.Time) {
	if !d.mu.changed {
		return
	}
	d.mu.changed, d.mu.published = false, now
	workers := make([]fleet.Worker, 0, len(d.mu.workers))
	var counts [len(fleet.States)]int
	for _, w := range d.mu.workers {
		workers = append(workers, w.inView())
		counts[w.state]++
	}
	d.live.Publish(fleet.NewView(workers))
	for _, s := range fleet.States {
		d.metrics.workers.WithLabelValues(s.String()).Set(float64(counts[s]))
	}
	d.tellStatesLocked()
}

// publishDueLocked publishes unless the last view is too recent. Then it returns
// when to call again, else zero.
func (d *Discovery) publishDueLocked(now time.Time) time.Time {
	due := d.mu.published.Add(publishGap)
	if d.mu.changed && now.Before(due) {
		return due
	}
	d.publishLocked(now)
	return time.Time{}
}
