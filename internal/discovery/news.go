package discovery

import (
	"context"
	"log/slog"
	"maps"
	"slices"
)

// maxStateLines bounds the log lines for the changes of one view; more changes
// are summed up, so that a fleet that comes or goes at once doesn't flood the
// log.
const maxStateLines = 16

// news is a log line that waits for the lock to be released.
type news struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// change is a worker's change of state.
type change struct {
	attrs []slog.Attr
	to    string
}

func (d *Discovery) tellLocked(level slog.Level, message string, attrs ...slog.Attr) {
	d.mu.news = append(d.mu.news, news{level, message, attrs})
}

// tellStateLocked notes that a worker entered its state. It is logged with the
// view that shows it.
func (d *Discovery) tellStateLocked(w *worker, from, why string) {
	attrs := []slog.Attr{
		slog.String("worker", w.ID.String()), slog.String("address", w.address), slog.String("name", w.Address),
		slog.String("from", from), slog.String("to", w.state.String()), slog.String("reason", why),
	}
	if w.verdict == down && w.lastFailure != nil {
		attrs = append(attrs, slog.Any("error", w.lastFailure))
	}
	d.mu.states = append(d.mu.states, change{attrs, w.state.String()})
}

// tellStatesLocked turns the noted changes into log lines.
func (d *Discovery) tellStatesLocked() {
	changes := d.mu.states
	d.mu.states = nil
	if len(changes) <= maxStateLines {
		for _, c := range changes {
			d.tellLocked(slog.LevelInfo, "a worker's state changed", c.attrs...)
		}
		return
	}
	counts := make(map[string]int)
	for _, c := range changes {
		counts[c.to]++
	}
	for _, to := range slices.Sorted(maps.Keys(counts)) {
		d.tellLocked(slog.LevelInfo, "many workers' states changed", slog.String("to", to), slog.Int("changes", counts[to]))
	}
}

// tellOpinionLocked says once that a doubt has begun, and once that it is over.
func (d *Discovery) tellOpinionLocked(s *source, o opinion) {
	switch {
	case o.began:
		d.metrics.doubts.WithLabelValues(s.name).Inc()
		d.tellLocked(slog.LevelWarn, "a source of workers lists too few to be believed; the missing ones stay for now",
			slog.String("source", s.name), slog.Int("missing", o.missing), slog.Int("known", o.known), slog.Duration("grace", d.cfg.Grace))
	case o.ended:
		d.tellLocked(slog.LevelInfo, "the doubted source of workers lists them again", slog.String("source", s.name))
	}
}

// tellDuplicatesLocked says once of each duplicate that it is one.
func (d *Discovery) tellDuplicatesLocked(duplicates map[duplicate]bool) {
	for dup := range duplicates {
		if d.mu.duplicates[dup] {
			continue
		}
		d.metrics.refused.WithLabelValues(dup.source).Inc()
		d.tellLocked(slog.LevelWarn, "a listed worker was left out", slog.String("source", dup.source),
			slog.String("worker", dup.id.String()), slog.String("reason", "source "+dup.winner+" lists its id too"))
	}
	d.mu.duplicates = duplicates
}

// leave releases the lock and then logs what happened under it.
func (d *Discovery) leave() {
	lines := d.mu.news
	d.mu.news = nil
	d.mu.Unlock()
	for _, n := range lines {
		d.cfg.Logger.LogAttrs(context.Background(), n.level, n.message, n.attrs...)
	}
}
