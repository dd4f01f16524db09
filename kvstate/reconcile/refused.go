package reconcile

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// refusedQuiet is how long further records that are refused in the same topic for
// the same reason are only counted.
const refusedQuiet = time.Minute

// refusedRecords counts the records that are refused, and warns of them: a broken
// writer can make any number. Not safe for concurrent use.
type refusedRecords struct {
	count  *prometheus.CounterVec // by reason
	logger *slog.Logger
	alike  map[alike]*warned
}

// alike is what refusals have in common of which one is warned of.
type alike struct {
	topic  string
	reason reason
}

type warned struct {
	at   time.Time
	more int // since then, not warned of
}

// add takes one refusal. The warning has the number of those like it that were not
// warned of.
func (l *refusedRecords) add(no refusal, now time.Time) {
	l.count.WithLabelValues(string(no.reason)).Inc()
	key := alike{no.topic, no.reason}
	last := l.alike[key]
	if last != nil && now.Sub(last.at) < refusedQuiet {
		last.more++
		return
	}
	args := []any{"file", no.where, "reason", string(no.reason), "error", no.err}
	if last != nil && last.more > 0 {
		args = append(args, "more", last.more)
	}
	l.logger.Warn("kv state record refused", args...)
	if l.alike == nil {
		l.alike = make(map[alike]*warned)
	}
	l.alike[key] = &warned{at: now}
}
