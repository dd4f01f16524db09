package reconcile

import (
	"errors"
	"fmt"
	"time"

	"mooring/kvstate"
)

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

// recovered returns the recovery in an answer.
func recovered(r *kvstate.QueryResponse, err error) (*kvstate.StateAgentRecoveryReply, error) {
	if err == nil && r.StateAgentRecovery == nil {
		err = refusalOf(r)
	}
	return r.StateAgentRecovery, err
}
