package routing

import (
	"time"

	"mooring/internal/fleet"
)

// sighting is this replica's own load on a target when the target's figures were
// taken: what of them is nobody else's.
type sighting struct {
	at       time.Time // that of the figures
	requests int
	blocks   int
}

// sight is what a holding knows of its target's figures.
type sight struct {
	seen   sighting // of the newest figures
	asking bool     // newer ones are on their way
	peak   sighting // the most that was there since they were asked for
}

// asking says that t's figures are asked for. When they are taken is not known, so
// what is there at any time until they have come counts as being in them. Else a
// request that ends in the meantime would be taken for somebody else's, and would
// stay on the target until the next figures.
func (l *load) asking(t fleet.Target) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holdingLocked(t)
	h.sight.asking, h.sight.peak = true, sighting{}
	l.raiseRankLocked(t, h)
}

// said says that what was asked for has come, or will not: the newest figures are
// those of at.
func (l *load) said(t fleet.Target, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.mu.work[t]
	if h == nil || !h.sight.asking {
		return
	}
	h.sight.asking = false
	if !h.sight.seen.at.Equal(at) {
		h.sight.seen = h.sight.peak
		h.sight.seen.at = at
	}
}

// raiseLocked notes that a target, whose holding is h, has more to do than before.
// What names no rank may run on any: they are asked for together, from the first on.
func (l *load) raiseLocked(t fleet.Target, h *holding) {
	if t.Ranked {
		l.raiseRankLocked(t, h)
		return
	}
	for rank := fleet.OnRank(t.Worker, 0); ; rank.Rank++ {
		if h = l.mu.work[rank]; h == nil {
			return
		}
		l.raiseRankLocked(rank, h)
	}
}

func (l *load) raiseRankLocked(t fleet.Target, h *holding) {
	if h.sight.asking {
		h.sight.peak.requests = max(h.sight.peak.requests, l.ofRankLocked(t, h))
		h.sight.peak.blocks = max(h.sight.peak.blocks, h.inUse())
	}
}

// sightLocked remembers what of this replica's load is there when a target's
// newest figures are first met, unless somebody says when they were asked for. It
// returns the target's holding, which is h or new.
func (l *load) sightLocked(row *row, h *holding) *holding {
	if h == nil {
		h = l.holdingLocked(row.target)
	}
	if !h.sight.asking && !h.sight.seen.at.Equal(row.figures.At) {
		h.sight.seen = sighting{at: row.figures.At, requests: l.ofRankLocked(row.target, h), blocks: h.inUse()}
	}
	return h
}

// Asking says that the figures of a worker and its ranks are asked for now. Said is
// to follow. Both are for whoever fetches what Config.Figures returns.
func (r *Router) Asking(id fleet.WorkerID) { r.eachTarget(id, r.load.asking) }

// Said says that the answer to Asking is there, and that Config.Figures returns
// it: or, if there was none, what it returned before.
func (r *Router) Said(id fleet.WorkerID) {
	r.eachTarget(id, func(t fleet.Target) {
		f, _ := r.cfg.Figures(t)
		r.load.said(t, f.At)
	})
}

// eachTarget calls do for the ranks of a worker.
func (r *Router) eachTarget(id fleet.WorkerID, do func(fleet.Target)) {
	w, ok := r.live.View().Worker(id)
	if !ok {
		return
	}
	for rank := range w.Ranks {
		do(fleet.OnRank(id, rank))
	}
}
