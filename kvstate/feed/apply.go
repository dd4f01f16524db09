package feed

import (
	"fmt"
	"time"

	"mooring/kvstate"
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
		f.cfg.Index.AddWindows(c.windows)
		out := f.cfg.Index.Store(owner, c.tier, c.parent, c.hasParent, c.blocks)
		if out.Conflict+out.Refused > 0 {
			f.counts[IndexRefused]++
		}
		f.dirty[domain] = true
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

// normalize checks e, and the block size with it: the one configured, else the
// partition's, else that of the first store that is good otherwise.
func (f *Feed) normalize(e *event, domain kvstate.Domain) (c change, why Reason, ok bool) {
	have, size := f.cfg.Index.BlockSize(), f.cfg.BlockSize
	if size == 0 {
		size = have
	}
	if size == 0 && e.blockSize <= maxBlockSize {
		size = int(e.blockSize)
	}
	c, why, ok = f.normal[domain].normalize(e, domain, size)
	if e.kind != stored {
		return c, why, ok
	}
	if ok && have == 0 {
		f.cfg.Index.SetBlockSize(size)
	}
	if ok && f.cfg.Index.BlockSize() != size {
		ok, why = false, WrongBlockSize
	}
	switch {
	case ok:
		f.agent.BlockSizeError = ""
	case why == WrongBlockSize && f.agent.BlockSizeError == "":
		f.agent.BlockSizeError = f.blockSizeError(e)
		f.warn("kv block size", "error", f.agent.BlockSizeError)
	}
	return c, why, ok
}

func (f *Feed) blockSizeError(e *event) string {
	if f.cfg.BlockSize > 0 {
		return fmt.Sprintf("engine has blocks of %d tokens, configured are %d, the partition has %d", e.blockSize, f.cfg.BlockSize, f.cfg.Index.BlockSize())
	}
	return fmt.Sprintf("engine has blocks of %d tokens, the partition has %d", e.blockSize, f.cfg.Index.BlockSize())
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
