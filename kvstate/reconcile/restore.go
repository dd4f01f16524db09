package reconcile

import (
	"time"

	"mooring/kvstate"
)

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
