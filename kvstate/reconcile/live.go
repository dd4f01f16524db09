package reconcile

import (
	"fmt"
	"time"

	"mooring/kvstate"
)

// heard takes live events of an owner's stream. Those of a stream that was closed
// meanwhile are ignored.
func (c *core) heard(now time.Time, id kvstate.CacheOwnerID, stream uint64, events []kvstate.RouterEvent) {
	o := c.owners[id]
	if o == nil || o.talk.stream != stream {
		return
	}
	o.talk.streamProblem = nil
	follows, fits := o.follows(), false
	for _, e := range events {
		o.talk.newest = max(o.talk.newest, e.EventID)
		fits = fits || e.EventID <= o.held.cursor+1
		if (follows || o.waits()) && !o.tail.add(e) {
			c.out.refused = append(c.out.refused, tailFull) // missing from now on; newest tells
		}
	}
	switch {
	case !follows:
	case fits:
		c.touch(o)
		c.drain(o, now)
	case !o.talk.lost: // behind a gap, and the first to say so
		c.touch(o)
		o.talk.lost = true
	}
}

// follows reports whether events may be added to what is held for o.
func (o *owner) follows() bool {
	return o.held.any && o.held.publisher == o.agent.identity.PublisherID && !o.talk.doubt && !o.waits()
}

// waits reports whether a full state is on its way, to which later events will be
// added.
func (o *owner) waits() bool {
	return o.talk.restoring != 0 || o.talk.recovery != 0 && o.talk.question == askFull
}

// streaming takes what became of an owner's stream. What was published while there
// was no connection is lost, and the status says whether there was something.
func (c *core) streaming(id kvstate.CacheOwnerID, stream uint64, connected bool) {
	o := c.owners[id]
	if o == nil || o.talk.stream != stream {
		return
	}
	o.talk.connected, o.talk.owed = connected, 0
	if connected {
		// The status that is out may be older than the connection: let another
		// one tell. One more after that catches what was lost in between.
		c.drop(&o.talk.status)
		o.talk.statusAt, o.talk.statusPause = time.Time{}, pause{}
	}
	c.touch(o)
}

// garbled takes that something in an owner's stream could not be read. What it was
// is missing like anything that got lost.
func (c *core) garbled(id kvstate.CacheOwnerID, stream uint64, err error) {
	if o := c.owners[id]; o != nil && o.talk.stream == stream {
		o.talk.streamProblem = fmt.Errorf("live events: %w", err)
	}
}

// drain applies the waiting events that follow the cursor. If some before them are
// missing, the rest goes on waiting.
func (c *core) drain(o *owner, now time.Time) {
	if c.apply(o, now, o.tail.take(o.held.cursor)) {
		o.talk.lost = o.talk.newest > o.held.cursor
	}
}

// apply applies events, which follow the cursor in order, and moves the cursor. It
// reports false if one does not belong to o: then nothing after it was applied.
func (c *core) apply(o *owner, now time.Time, events []kvstate.RouterEvent) bool {
	n := 0
	var wrong error
	for ; n < len(events); n++ {
		if wrong = o.mustOwn(&events[n], o.held.engine, o.held.worker); wrong != nil {
			break
		}
	}
	if n > 0 {
		c.edit(o, edit{events: events[:n]})
		o.reach(events[n-1].EventID)
	}
	if wrong != nil {
		c.wrongEvent(o, now, wrong)
	}
	return wrong == nil
}

// reach notes that all events up to a cursor are applied, as if they had been
// recovered.
func (o *owner) reach(cursor uint64) {
	o.held.cursor = max(o.held.cursor, cursor)
	if r := o.receipt; r != nil && r.RecoveredThroughCursor < o.held.cursor {
		lifted := *r
		lifted.RecoveredThroughCursor = o.held.cursor
		o.receipt = &lifted
	}
	if r := o.talk.confirm; r != nil {
		r.RecoveredThroughCursor = max(r.RecoveredThroughCursor, o.held.cursor)
	}
}

// wrongEvent withdraws o: what its agent says is not its own, so nothing that it
// said can be relied on. Only a new full state helps.
func (c *core) wrongEvent(o *owner, now time.Time, err error) {
	c.out.refused = append(c.out.refused, wrongOwner)
	o.receipt, o.talk.confirm, o.talk.doubt = nil, nil, true
	o.tail.clear()
	c.trouble(o, now, err)
	c.touch(o)
}

// mustOwn says why an event cannot be o's: its domain is not known, its source is
// another owner, or it is of another worker than the attached one. Without an
// engine, events of the worker domain are another's business and are skipped.
func (o *owner) mustOwn(e *kvstate.RouterEvent, engine bool, w kvstate.Worker) error {
	scope, err := e.Scope()
	if err != nil {
		return err
	}
	if e.StateSource != nil && *e.StateSource != o.id {
		return fmt.Errorf("event %d is of the cache owner %s", e.EventID, *e.StateSource)
	}
	of := kvstate.Worker{WorkerID: e.WorkerID, DPRank: e.DPRank}
	if engine && (scope.All || scope.Domain == kvstate.WorkerDomain) && of != w {
		return fmt.Errorf("event %d is of worker %s, attached is %s", e.EventID, of, w)
	}
	return nil
}
