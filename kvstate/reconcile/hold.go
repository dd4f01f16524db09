package reconcile

import (
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
)

// tidy lets go of what o must not hold any longer.
func (c *core) tidy(o *owner, now time.Time) {
	a, one := sole(o.attachments)
	another := one && o.held.engine && a.PublisherID == o.held.publisher && engineOf(&a) != engine{o.held.worker, o.held.generation}
	if o.talk.restoring != 0 {
		if another {
			o.receipt = nil // it names a generation, but no worker
		}
		return // nothing else may change the index for o; restored touches it again
	}
	if len(o.sources) == 0 {
		c.forget(o)
		return
	}
	c.expire(o, now)
	if !o.held.engine {
		return
	}
	if _, there := c.partition(o.held.worker); len(o.attachments) == 0 || !there || another {
		c.release(o)
	}
}

// expire clears the state of a publisher that was replaced, when the grace is over.
func (c *core) expire(o *owner, now time.Time) {
	replaced := o.held.any
	for _, s := range o.sources {
		replaced = replaced && s.PublisherID != o.held.publisher
	}
	switch {
	case !replaced:
		o.until = time.Time{}
	case o.until.IsZero():
		o.until = now.Add(c.grace)
	case !o.until.After(now):
		c.forget(o)
	}
}

// forget clears all that the index holds for o.
func (c *core) forget(o *owner) {
	if o.held.engine {
		c.release(o)
	}
	if o.held.any {
		c.edit(o, edit{clearOwner: true})
		c.hold(o, held{})
	}
	o.receipt, o.until = nil, time.Time{}
}

// release clears the blocks of the engine that was attached to o. Those that
// outlive an engine stay.
func (c *core) release(o *owner) {
	w := o.held.worker
	if c.fillers[w] == o {
		c.edit(o, edit{clearWorker: true})
		c.unfill(o, w)
	}
	h := o.held
	h.engine, h.worker, h.generation = false, kvstate.Worker{}, 0
	c.hold(o, h)
	o.receipt, o.talk.confirm = nil, nil
}

// hold notes what the index holds for o from now on.
func (c *core) hold(o *owner, h held) {
	old := o.held
	o.held = h
	if h.engine {
		c.name(o, h.worker, +1)
	}
	if h.any {
		c.use(h.partition, +1)
	}
	if old.engine {
		c.name(o, old.worker, -1)
	}
	if old.any {
		c.use(old.partition, -1)
	}
}

// use counts that an owner's state is in the index of p, or on its way there.
func (c *core) use(p fleet.Partition, by int) {
	c.users[p] += by
	if c.users[p] == 0 {
		c.left[p] = true
	}
}

// unused returns the partitions whose index nobody uses any more.
func (c *core) unused() []fleet.Partition {
	var ps []fleet.Partition
	for p := range c.left {
		if c.users[p] == 0 {
			delete(c.users, p)
			ps = append(ps, p)
		}
	}
	clear(c.left)
	return ps
}

// edit completes an edit of what is held for o, and has it made.
func (c *core) edit(o *owner, e edit) {
	e.partition, e.owner = o.held.partition, o.key
	if o.held.engine {
		e.worker = kvstate.WorkerKey(o.held.worker)
		e.fills = c.fillers[o.held.worker] == o
	}
	c.out.edits = append(c.out.edits, e)
}

// claim makes o the one whose events write w's own blocks, and reports whether it
// is. Two owners may name one worker, and both are projected then; but if both
// wrote its blocks, the removes of one would undo the stores of the other. Who was
// there first stays, unless it is not ready. A feed always stays.
func (c *core) claim(o *owner, w kvstate.Worker) bool {
	old := c.fillers[w]
	switch {
	case old == nil || old == o:
	case old.fed || old.talk.restoring != 0 || old.resolution.State == kvstate.Ready:
		return false
	default:
		c.edit(old, edit{clearWorker: true}) // they may be in another partition's index
		old.talk.doubt = true
		c.touch(old)
	}
	c.fillers[w] = o
	return true
}

// unfill ends o's claim.
func (c *core) unfill(o *owner, w kvstate.Worker) {
	delete(c.fillers, w)
	c.miss(o, w)
}

// miss has all but o that hold w's blocks start anew, since nobody writes those:
// the first to have its full state claims it.
func (c *core) miss(o *owner, w kvstate.Worker) {
	for other := range c.on[workerID(w)] {
		if other != o && other.held.engine && other.held.worker == w && !other.fed && !other.talk.doubt {
			other.talk.doubt = true
			c.touch(other)
		}
	}
}

// written reports whether w's own blocks are written. An owner whose agent does not
// answer keeps its claim, but until it answers others may take it.
func (c *core) written(w kvstate.Worker) bool {
	filler := c.fillers[w]
	return filler != nil && (filler.fed || filler.status != nil)
}
