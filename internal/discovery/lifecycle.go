package discovery

import (
	"time"

	"mooring/internal/fleet"
)

// lifecycle decides the state of one worker from all that is known of it. It
// reads no clock and starts nothing; the methods record what happened, and
// advance draws the conclusion.
type lifecycle struct {
	listed  bool      // some source lists it, or its absence is doubted
	drain   bool      // as listed
	located bool      // it has an address
	settles time.Time // Envoy has had time to learn that address
	verdict verdict   // of the probes at that address
	streak  int       // results in a row that contradict verdict

	state fleet.State
	since time.Time // when it entered state
}

// verdict is what the probes say of a worker.
type verdict uint8

const (
	untried verdict = iota // none has passed at this address yet
	up
	down // it was up, and then too many failed
)

func (v verdict) String() string { return [...]string{"untried", "up", "down"}[v] }

// list records that a source lists the worker.
func (l *lifecycle) list(drain bool) {
	if !l.listed {
		l.streak = 0 // what was before it vanished is not in a row with what comes
	}
	l.listed, l.drain = true, drain
}

// unlist records that no source lists it any more.
func (l *lifecycle) unlist() { l.listed = false }

// relocate records a new address, of which nothing is known. Envoy knows it at
// the time settles; zero: at once.
func (l *lifecycle) relocate(settles time.Time) {
	l.located, l.settles = true, settles
	l.verdict, l.streak = untried, 0
}

// dislocate records that the address is not known.
func (l *lifecycle) dislocate() {
	l.located = false
	l.verdict, l.streak = untried, 0
}

// trust records that the worker was taken for healthy without probes.
func (l *lifecycle) trust() {
	if l.located {
		l.verdict, l.streak = up, 0
	}
}

// pass records a passed probe.
func (l *lifecycle) pass(h Health) {
	switch l.verdict {
	case untried:
		l.verdict = up
	case up:
		l.streak = 0
	case down:
		if l.streak++; l.streak >= h.HealthyAfter {
			l.verdict, l.streak = up, 0
		}
	}
}

// fail records a failed probe. A worker that never passed one may still be
// starting: its failures are no reason to distrust its first pass.
func (l *lifecycle) fail(h Health) {
	switch l.verdict {
	case untried:
	case up:
		if l.streak++; l.streak >= h.UnhealthyAfter {
			l.verdict, l.streak = down, 0
		}
	case down:
		l.streak = 0
	}
}

// conclude returns the state that follows from what was recorded, and why.
func (l *lifecycle) conclude(now time.Time, h Health) (fleet.State, string) {
	switch {
	case !l.listed:
		return fleet.Vanished, "not listed"
	case l.drain:
		return fleet.Draining, "told to drain"
	case !l.located:
		return fleet.Unhealthy, "its name is not resolved"
	case !h.off() && l.verdict == untried:
		return fleet.Unhealthy, "no probe has passed yet"
	case !h.off() && l.verdict == down:
		return fleet.Unhealthy, "probes failed"
	case now.Before(l.settles):
		return fleet.Unhealthy, "Envoy is learning its address"
	case h.off():
		return fleet.Active, "listed"
	default:
		return fleet.Active, "probes pass"
	}
}

// advance moves to the state that holds at now and reports whether it is
// another one, and why.
func (l *lifecycle) advance(now time.Time, h Health) (changed bool, why string) {
	state, why := l.conclude(now, h)
	if state == l.state {
		return false, ""
	}
	l.state, l.since = state, now
	return true, why
}

// next returns when the clock alone will change something after now: the end of
// settling, or of the grace. False: never.
func (l *lifecycle) next(now time.Time, grace time.Duration) (time.Time, bool) {
	switch {
	case l.state == fleet.Vanished:
		return l.since.Add(grace), true
	case now.Before(l.settles):
		return l.settles, true
	default:
		return time.Time{}, false
	}
}

// forgotten reports whether it has been vanished for the grace.
func (l *lifecycle) forgotten(now time.Time, grace time.Duration) bool {
	return l.state == fleet.Vanished && !now.Before(l.since.Add(grace))
}
