package reconcile

import (
	"errors"
	"fmt"
	"time"

	"mooring/kvstate"
)

// answered takes the answer to a call, or why there is none. An answer that nobody
// waits for any more changes nothing.
func (c *core) answered(now time.Time, id uint64, r kvstate.QueryResponse, err error) {
	o := c.calls[id]
	if o == nil {
		return
	}
	delete(c.calls, id)
	c.touch(o)
	if id == o.talk.status {
		o.talk.status = 0
		c.heardStatus(o, now, &r, err)
		return
	}
	o.talk.recovery = 0
	if o.talk.question == askFull {
		c.heardFull(o, now, &r, err)
	} else {
		c.heardRange(o, now, &r, err)
	}
}

// heardStatus takes the answer to a status question. Without one the owner is not
// projected, but what the index holds for it stays.
func (c *core) heardStatus(o *owner, now time.Time, r *kvstate.QueryResponse, err error) {
	o.talk.asked = time.Time{}
	if err == nil && r.Status == nil {
		err = refusalOf(r)
	}
	if err != nil {
		o.status, o.talk.statusProblem = nil, fmt.Errorf("status: %w", err)
		o.talk.statusPause.begin(now)
		return
	}
	o.status, o.talk.statusProblem = r.Status, nil
	o.talk.fresh = true
	if r.Status.Identity != o.agent.identity {
		c.mistrust(o)
		return
	}
	if o.talk.confirm != nil && o.talk.restoring == 0 {
		o.receipt, o.talk.confirm = o.talk.confirm, nil
	}
	c.listen(o, r.Status.EventEndpoint)
	c.compareCursors(o, r.Status.OutboundCursor)
}

// mistrust takes that somebody else answers where o's agent should: its cursor says
// nothing about o, its events are not heard, and those that came since the last
// status may have been its already. Resolve says that the status is another's.
func (c *core) mistrust(o *owner) {
	if o.talk.endpoint == "" {
		return
	}
	c.listen(o, "")
	o.tail.clear()
	o.talk.newest, o.talk.lost, o.talk.doubt = 0, false, true
}

// compareCursors finds out whether events got lost at the end of the stream, where
// no later event tells. What was published by the last status has come by this one
// unless it is lost.
func (c *core) compareCursors(o *owner, published uint64) {
	due := o.talk.owed
	if !o.talk.connected {
		due = published // nothing is on its way
	}
	o.talk.owed = published
	if o.held.any && due > o.held.cursor {
		o.talk.newest = max(o.talk.newest, due)
		o.talk.lost = true
	}
}

// heardFull takes a full state. Unless all of it belongs to this owner and its
// attachment, none of it is used.
func (c *core) heardFull(o *owner, now time.Time, r *kvstate.QueryResponse, err error) {
	a, one := sole(o.attachments)
	p, there := c.partition(a.Worker)
	if !one || !there {
		return // changed while it was asked; ask looks again
	}
	reply, err := recovered(r, err)
	if err == nil && reply.Response.TreeDump == nil {
		err = refusalOf(&reply.Response)
	}
	if err != nil {
		c.trouble(o, now, fmt.Errorf("full state: %w", err))
		return
	}
	dump := reply.Response.TreeDump
	if !c.belongs(o, now, reply, a.AttachmentGeneration) {
		return
	}
	for i := range dump.Events {
		if err := o.mustOwn(&dump.Events[i], true, a.Worker); err != nil {
			c.wrongEvent(o, now, fmt.Errorf("full state: %w", err))
			return
		}
	}
	next := held{any: true, publisher: o.agent.identity.PublisherID, partition: p, cursor: dump.LastEventID,
		engine: true, worker: a.Worker, generation: a.AttachmentGeneration}
	c.restore(o, next, dump, reply.Receipt)
}

// restore has a full state put into the index.
func (c *core) restore(o *owner, next held, dump *kvstate.TreeDumpReply, receipt kvstate.RecoveryReceipt) {
	if o.held.engine && o.held.worker != next.worker {
		c.release(o)
	}
	if o.held.any && o.held.partition != next.partition {
		c.forget(o)
	}
	if o.held.publisher != next.publisher {
		o.receipt = nil // it is of the state that goes
	}
	c.use(next.partition, +1) // until restored
	scope := dump.ResetScope
	fills := c.claim(o, next.worker)
	o.talk.restoring, o.talk.stale, o.talk.restored, o.talk.confirm = c.nextID(), false, next, &receipt
	c.calls[o.talk.restoring] = o
	c.out.restores = append(c.out.restores, restore{o.talk.restoring, edit{
		partition: next.partition, owner: o.key, worker: kvstate.WorkerKey(next.worker), fills: fills,
		clearOwner:  o.held.publisher != next.publisher || !scope.Limited || scope.Domain == kvstate.CacheOwnerDomain,
		clearWorker: fills,
		events:      dump.Events,
	}, int(o.agent.blockSize)})
}

// restored takes the outcome of a restore. An error says that the index was not
// changed.
func (c *core) restored(now time.Time, id uint64, err error) {
	o := c.calls[id]
	delete(c.calls, id)
	o.talk.restoring = 0
	c.touch(o)
	defer c.use(o.talk.restored.partition, -1) // hold counts it
	if err != nil {
		if w := o.talk.restored.worker; c.fillers[w] == o && (!o.held.engine || o.held.worker != w) {
			c.unfill(o, w)
		}
		o.talk.confirm = nil
		c.trouble(o, now, err)
		return
	}
	c.hold(o, o.talk.restored)
	if o.talk.stale {
		o.talk.doubt = true // nobody heard what happened since
		return
	}
	o.talk.lost, o.talk.owed, o.talk.problem = false, 0, nil
	w := o.held.worker
	o.talk.doubt = c.fillers[w] != o && !c.written(w) // who wrote the worker's own blocks has left meanwhile
	if !o.talk.doubt {
		c.drain(o, now)
	}
	c.drop(&o.talk.status) // only a status asked from now on confirms
	o.talk.statusAt, o.talk.statusPause = time.Time{}, pause{}
}

// heardRange takes the events that were missing. If the agent does not have them
// any more, only the full state helps.
func (c *core) heardRange(o *owner, now time.Time, r *kvstate.QueryResponse, err error) {
	a, one := sole(o.attachments)
	reply, err := recovered(r, err)
	var refused agentError
	switch {
	case !one || !o.held.any:
		return
	case errors.As(err, &refused):
		o.talk.doubt = true
		c.trouble(o, now, fmt.Errorf("missing events: %w", err))
		return
	case err != nil:
		c.trouble(o, now, fmt.Errorf("missing events: %w", err))
		return
	}
	if !c.belongs(o, now, reply, a.AttachmentGeneration) {
		return
	}
	switch answer := &reply.Response; {
	case answer.TreeDump != nil:
		c.heardFull(o, now, r, nil)
	case answer.Events != nil:
		c.repair(o, now, answer.Events)
	case answer.TooNew != nil && answer.TooNew.NewestAvailable <= o.held.cursor && len(o.tail.events) == 0:
		o.talk.newest, o.talk.lost = o.held.cursor, false // there was nothing missing
	default:
		o.talk.doubt = true
		c.trouble(o, now, fmt.Errorf("missing events: %w", refusalOf(answer)))
	}
}

// repair applies the events that were missing, then those that waited for them.
func (c *core) repair(o *owner, now time.Time, answer *kvstate.EventsReply) {
	if answer.LastEventID < o.talk.start {
		o.talk.doubt = true
		c.trouble(o, now, fmt.Errorf("missing events: asked from %d, the answer ends at %d", o.talk.start, answer.LastEventID))
		return
	}
	var events []kvstate.RouterEvent
	for _, e := range answer.Events {
		if e.EventID > o.held.cursor && e.EventID <= answer.LastEventID {
			events = append(events, e)
		}
	}
	if c.apply(o, now, events) {
		// Ids that are not in the answer concern others. Those at or below the cursor
		// were late, not lost.
		o.reach(answer.LastEventID)
		o.talk.problem = nil
		c.drain(o, now)
	}
}

// trouble notes that a recovery failed; the next attempt waits.
func (c *core) trouble(o *owner, now time.Time, err error) {
	o.talk.problem = err
	o.talk.trouble.begin(now)
}

// belongs reports whether a receipt proves a recovery from this very agent and
// attachment, and of just what the answer has. If not, o is withdrawn until a full
// state is there.
func (c *core) belongs(o *owner, now time.Time, r *kvstate.StateAgentRecoveryReply, generation uint64) bool {
	g := r.Receipt.AttachmentGeneration
	last, some := lastEvent(&r.Response)
	var err error
	switch {
	case r.Receipt.Identity != o.agent.identity || g == nil || *g != generation:
		wrong := r.Receipt
		wrong.AttachmentGeneration = nil // fits no attachment, not even a later one; Resolve says so
		o.receipt = &wrong
		err = errors.New("the recovery is of another agent or attachment than was asked for")
	case some && r.Receipt.RecoveredThroughCursor != last:
		o.receipt = nil
		err = fmt.Errorf("the recovery ends at event %d, its receipt at %d", last, r.Receipt.RecoveredThroughCursor)
	default:
		return true
	}
	c.out.refused = append(c.out.refused, wrongReceipt)
	o.talk.confirm, o.talk.doubt = nil, true
	c.trouble(o, now, err)
	return false
}

// lastEvent returns the last event that is in a recovery, if it is one.
func lastEvent(r *kvstate.QueryResponse) (id uint64, some bool) {
	switch {
	case r.TreeDump != nil:
		return r.TreeDump.LastEventID, true
	case r.Events != nil:
		return r.Events.LastEventID, true
	default:
		return 0, false
	}
}

// agentError is an answer, but not the one that was asked for.
type agentError struct{ text string }

func (e agentError) Error() string { return e.text }

// recovered returns the recovery in an answer.
func recovered(r *kvstate.QueryResponse, err error) (*kvstate.StateAgentRecoveryReply, error) {
	if err == nil && r.StateAgentRecovery == nil {
		err = refusalOf(r)
	}
	return r.StateAgentRecovery, err
}

// refusalOf says why an answer is not what was asked for.
func refusalOf(r *kvstate.QueryResponse) error {
	switch {
	case r.Error != nil:
		return agentError{"the agent says: " + printable(*r.Error)}
	case r.TreeDumpFailed != nil:
		return agentError{"the agent could not make one: " + printable(r.TreeDumpFailed.Message)}
	case r.InvalidRange != nil:
		return agentError{fmt.Sprintf("the agent calls %d to %d no range", r.InvalidRange.StartID, r.InvalidRange.EndID)}
	case r.TooNew != nil:
		return agentError{fmt.Sprintf("the agent has nothing after event %d", r.TooNew.NewestAvailable)}
	default:
		return agentError{"the answer is of another kind than was asked for"}
	}
}

// printable bounds what an agent's text adds to an error or a log line.
func printable(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	return fmt.Sprintf("%q", s)
}
