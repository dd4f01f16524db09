package reconcile

import (
	"mooring/internal/fleet"
	"mooring/kvstate"
)

// testimony is what a feed in this process says about its owner: what a remote
// owner's records and agent say.
type testimony struct {
	source     *kvstate.SourceAdvertisement
	attachment *kvstate.AttachmentAdvertisement
	status     *kvstate.AgentStatus
	receipt    *kvstate.RecoveryReceipt
	cursor     func() uint64 // what the receipt will say when it is asked for; does not block
	holed      bool
	opening    bool // what the engine holds may be known in a moment
	problem    error
}

// feedStarts notes that a feed writes the blocks of an owner and of w from now on.
// It reports false if that must wait, because a state is being restored there.
func (c *core) feedStarts(id kvstate.CacheOwnerID, w kvstate.Worker, p fleet.Partition) bool {
	for _, busy := range []*owner{c.owners[id], c.fillers[w]} {
		if busy != nil && busy.talk.restoring != 0 {
			return false
		}
	}
	o := c.owner(id)
	if o.agent != (agent{}) {
		c.hangUp(o)
		o.agent = agent{}
	}
	c.forget(o)
	if filler := c.fillers[w]; filler != nil {
		c.edit(filler, edit{clearWorker: true})
	}
	c.fillers[w] = o
	o.fed, o.opening = true, true
	c.hold(o, held{any: true, partition: p, engine: true, worker: w})
	c.touch(o)
	return true
}

// feedSays replaces what was known of a feed's owner. One that stops says nothing.
func (c *core) feedSays(id kvstate.CacheOwnerID, t testimony) {
	o := c.owners[id]
	if o == nil || !o.fed || o.leaving {
		return
	}
	c.dropTestimony(o)
	if t.source != nil {
		o.sources[recordKey{configuration, 0}] = *t.source
	}
	if t.attachment != nil {
		o.attachments[recordKey{configuration, 0}] = *t.attachment
		c.name(o, t.attachment.Worker, +1)
	}
	o.status, o.receipt, o.cursor, o.holed, o.opening, o.problem = t.status, t.receipt, t.cursor, t.holed, t.opening, t.problem
	c.touch(o)
}

func (c *core) dropTestimony(o *owner) {
	key := recordKey{configuration, 0}
	delete(o.sources, key)
	if a, ok := o.attachments[key]; ok {
		delete(o.attachments, key)
		c.name(o, a.Worker, -1)
	}
	o.status, o.receipt, o.cursor, o.holed, o.opening, o.problem = nil, nil, nil, false, false, nil
}

// feedStops withdraws a feed's owner. The feed may write until feedEnded.
func (c *core) feedStops(id kvstate.CacheOwnerID) {
	o := c.owner(id)
	c.dropTestimony(o)
	o.leaving = true
	c.touch(o)
}

// feedEnded clears what a feed wrote.
func (c *core) feedEnded(id kvstate.CacheOwnerID) {
	o := c.owner(id)
	c.forget(o)
	o.fed, o.leaving = false, false
	c.touch(o)
}
