package reconcile

import (
	"errors"
	"fmt"

	"mooring/kvstate"
	"mooring/kvstate/index"
)

// errBlockSize is a state whose blocks are not of the index's size.
var errBlockSize = errors.New("block size")

// perform changes the index as e says.
func (e *edit) perform(ix *index.Index) {
	own := index.Owner{Key: e.owner, Domain: kvstate.CacheOwnerDomain, Engine: e.worker}
	worker := index.Owner{Key: e.worker, Domain: kvstate.WorkerDomain}
	if e.clearOwner {
		ix.Clear(own)
	}
	if e.clearWorker {
		ix.Clear(worker)
	}
	for i := range e.events {
		event := &e.events[i]
		scope, err := event.Scope()
		if err != nil {
			continue // the core lets no such event through
		}
		if scope.All || scope.Domain == kvstate.CacheOwnerDomain {
			applyTo(ix, own, event)
		}
		if (scope.All || scope.Domain == kvstate.WorkerDomain) && e.fills {
			applyTo(ix, worker, event)
		}
	}
}

// applyTo applies one event for one owner. What the index does not take it counts.
func applyTo(ix *index.Index, o index.Owner, e *kvstate.RouterEvent) {
	switch e.Kind {
	case kvstate.Stored:
		ix.Store(o, e.Tier, e.Store.Parent, e.Store.HasParent, e.Store.Blocks)
	case kvstate.Removed:
		ix.Remove(o, e.Tier, e.Removed)
	case kvstate.Cleared:
		ix.Clear(o)
	}
}

// perform opens the index and puts the state into it. An error is errBlockSize;
// then nothing was changed.
func (r *restore) perform(set *index.Set) error {
	ix := set.Open(r.partition)
	if !ix.SetBlockSize(r.blockSize) {
		return fmt.Errorf("%w: the source's blocks have %d tokens, those of partition %s have %d", errBlockSize, r.blockSize, r.partition, ix.BlockSize())
	}
	r.edit.perform(ix)
	return nil
}
