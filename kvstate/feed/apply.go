package feed

import (
	"context"
	"fmt"
	"time"

	"mooring/kvstate"
	"mooring/kvstate/index"
)

// apply decodes one batch and does to the index what its events say.
func (f *Feed) apply(seq uint64, payload []byte, now time.Time) {
	f.agent.LastSeq, f.agent.Sequenced = seq, true
	f.agent.Batches++
	f.series.batches.Inc()
	b, err := f.decoder.decode(payload)
	if err != nil {
		f.counts[MalformedBatch]++
		f.markLost()
		f.warn("kv event batch undecodable", "seq", seq, "bytes", len(payload), "error", err)
		return
	}
	for r, n := range b.dropped {
		f.counts[r] += uint64(n)
	}
	if b.hasRank && b.rank != uint64(f.cfg.Worker.DPRank) {
		f.counts[WrongRank] += uint64(len(b.events))
		return
	}
	for i := range b.events {
		f.event(&b.events[i], now)
	}
	if b.blind {
		f.markLost()
	}
}

// event does what one event says, or counts why not.
func (f *Feed) event(e *event, now time.Time) {
	domain, ok := domainOf(e)
	if !ok {
		f.counts[UnknownOwner]++
		return
	}
	c, why, ok := f.normalize(e, domain)
	if !ok {
		f.counts[why]++
		return
	}
	if c.short {
		f.counts[WrongTokenCount]++
	}
	f.owned = f.owned || domain == kvstate.CacheOwnerDomain
	owner := f.owners[domain]
	switch c.kind {
	case stored:
		if !f.store(e, &c, owner) {
			return
		}
	case removed:
		f.cfg.Index.Remove(owner, c.tier, c.hashes)
	case cleared:
		f.clear(domain)
		often := f.clears.note(now)
		if often && !f.agent.ClearsOften {
			f.warn("engine clears its kv cache all the time")
		}
		f.agent.ClearsOften = often
	}
	f.agent.Cursor++
	f.agent.Events++
	f.series.events[c.kind].Inc()
}

// normalize checks e, a store by the block size that sizeOf says.
func (f *Feed) normalize(e *event, domain kvstate.Domain) (c change, why Reason, ok bool) {
	if e.kind != stored {
		return f.normal[domain].normalize(e, domain, 0)
	}
	size := f.sizeOf(e)
	c, why, ok = f.normal[domain].normalize(e, domain, size)
	c.cut.Size = size
	if !ok && why == WrongBlockSize {
		f.refuseSize(e)
	}
	return c, why, ok
}

// sizeOf returns the block size that a store has to have: the one configured, else
// its own if the partition takes that, else the partition's.
func (f *Feed) sizeOf(e *event) int {
	ix, size := f.cfg.Index, f.cfg.BlockSize
	switch {
	case size > 0:
		f.claimed = f.claimed || ix.SetBlockSize(size) // there were blocks of another one when the feed began
		return size
	case e.blockSize <= maxBlockSize:
		return ix.SizeFor(int(e.blockSize))
	}
	return ix.BlockSize()
}

// store puts the blocks of a store into the index, or counts why not.
func (f *Feed) store(e *event, c *change, owner index.Owner) (ok bool) {
	owner.Cut = c.cut
	out := f.cfg.Index.Store(owner, c.tier, c.parent, c.hasParent, c.blocks)
	if out.Missized == len(c.blocks) {
		f.counts[WrongBlockSize]++
		f.refuseSize(e)
		return false
	}
	f.agent.BlockSizeError = ""
	if out.Conflict+out.Refused+out.Missized > 0 {
		f.counts[IndexRefused]++
	}
	f.dirty[c.domain] = true
	return true
}

// refuseSize says that the block size of a store is not the partition's.
func (f *Feed) refuseSize(e *event) {
	f.missized = e.blockSize
	if f.agent.BlockSizeError != "" {
		return
	}
	has := fmt.Sprintf("the partition has %d", f.cfg.Index.BlockSize())
	if f.cfg.BlockSize > 0 {
		has = fmt.Sprintf("configured are %d, %s", f.cfg.BlockSize, has)
	}
	f.agent.BlockSizeError = fmt.Sprintf("engine has blocks of %d tokens, %s", e.blockSize, has)
	f.warn("kv block size", "error", f.agent.BlockSizeError)
}

// fillIn gets what was refused, and is of the partition's size by now: later blocks
// follow it.
func (f *Feed) fillIn(ctx context.Context) {
	if f.missized == 0 || f.agent.BlockSizeError != "" || f.missized != uint64(f.cfg.Index.BlockSize()) {
		return
	}
	f.missized = 0
	if f.seq.canReplay {
		f.startOver(ctx)
	} else {
		f.markLost()
	}
}

// clearRate notices an engine that clears its cache all the time.
type clearRate struct {
	second     int64 // of the last clear
	n          int   // clears within it
	manyBefore bool  // there were many in the second before
}

// manyClears in one second are not an operator's doing.
const manyClears = 10

// note counts a clear and reports whether there were many within this second or
// the one before.
func (r *clearRate) note(now time.Time) bool {
	if s := now.Unix(); s != r.second {
		r.manyBefore = s == r.second+1 && r.n >= manyClears
		r.second, r.n = s, 0
	}
	r.n++
	return r.manyBefore || r.n >= manyClears
}
