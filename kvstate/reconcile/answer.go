package reconcile

import (
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

// agentError is an answer, but not the one that was asked for.
type agentError struct{ text string }

func (e agentError) Error() string { return e.text }

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
