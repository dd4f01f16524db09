package replication

import (
	"time"

	"mooring/internal/zmqsock"
)

// tellEvery is how often the log may tell of one peer that it came and went: one
// that does so all the time fills no log, and the metrics count each time.
const tellEvery = time.Second

// told is what the log says of a link; guarded by the link's lock.
type told struct {
	change    zmqsock.Event // the latest
	connected bool          // what the log says, if it says anything
	at        [2]time.Time  // of the line before the last, and of the last; zero: there was none
	later     *time.Timer   // will tell; nil: nothing is to be told later
	over      bool
}

// tell logs the latest change of the connection, unless the log says so already.
// With two lines in tellEvery it waits, and then logs what has become of it.
func (z *ZMQ) tell(l *link) {
	l.mu.Lock()
	t, now := &l.mu.told, time.Now()
	e := t.change
	first := t.at[1].IsZero()
	if t.over || t.later != nil || !e.Connected && e.Reason == zmqsock.Stopped || !first && t.connected == e.Connected {
		l.mu.Unlock()
		return
	}
	if wait := tellEvery - now.Sub(t.at[0]); wait > 0 {
		t.later = time.AfterFunc(wait, func() {
			l.mu.Lock()
			t.later = nil
			l.mu.Unlock()
			z.tell(l)
		})
		l.mu.Unlock()
		return
	}
	t.connected, t.at = e.Connected, [2]time.Time{t.at[1], now}
	l.mu.Unlock()
	if e.Connected {
		z.cfg.Logger.Info("a peer is connected", "peer", l.endpoint)
	} else {
		z.cfg.Logger.Warn("a peer is not connected", "peer", l.endpoint, "reason", e.Reason.String(), "error", e.Err)
	}
}

// tellNoMore ends the telling: the link does.
func (l *link) tellNoMore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.told.over = true
	if l.mu.told.later != nil {
		l.mu.told.later.Stop()
	}
}
