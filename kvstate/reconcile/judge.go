package reconcile

import (
	"slices"
	"time"

	"mooring/kvstate"
)

// judge resolves one owner and publishes the outcome if it is another one.
func (c *core) judge(o *owner, now time.Time) {
	var r kvstate.Resolution
	switch {
	case o.nothing():
		delete(c.owners, o.id)
		if o.since.IsZero() {
			return
		}
		r = kvstate.Resolution{Owner: o.id, Reason: kvstate.NoSource}
	default:
		c.out.resolves++
		r = kvstate.Resolve(c.inputs(o))
	}
	before := o.resolution
	o.resolution = r
	if r.State != before.State || r.Reason != before.Reason || r.Worker != before.Worker || o.since.IsZero() {
		o.since = now
	} else if sameVerdict(&r, &before) {
		return
	}
	c.out.verdicts = append(c.out.verdicts, verdict{before: before, now: r, problem: o.why(), quiet: o.flaps(now)})
}

// An owner that changes more often than changesTold times in changesIn flaps: what
// it does then must not fill the log.
const (
	changesTold = 10
	changesIn   = time.Minute
)

// flaps notes a change and reports whether there were too many lately.
func (o *owner) flaps(now time.Time) bool {
	if now.Sub(o.told) >= changesIn {
		o.told, o.changes = now, 0
	}
	o.changes++
	return o.changes > changesTold
}

// inputs gathers what Resolve is given about o.
func (c *core) inputs(o *owner) kvstate.Inputs {
	in := kvstate.Inputs{
		DiscoveryKnown: true, Owner: o.id, Live: c.live, Status: o.status, Receipt: o.receipt, Holed: o.hasHoles(),
		Sources:     make([]kvstate.SourceAdvertisement, 0, len(o.sources)),
		Attachments: make([]kvstate.AttachmentAdvertisement, 0, len(o.attachments)),
	}
	for key, s := range o.sources {
		in.Sources = append(in.Sources, s)
		in.DiscoveryKnown = in.DiscoveryKnown && c.watches[key.watch].known
	}
	for key, a := range o.attachments {
		in.Attachments = append(in.Attachments, a)
		in.DiscoveryKnown = in.DiscoveryKnown && c.watches[key.watch].known
	}
	return in
}

// hasHoles reports whether what is held for o may differ from what its agent has.
func (o *owner) hasHoles() bool { return o.holed || o.talk.lost || o.talk.doubt }

func sameVerdict(a, b *kvstate.Resolution) bool {
	return a.Barrier == b.Barrier && a.Holed == b.Holed && slices.Equal(a.Reasons, b.Reasons) && slices.Equal(a.Mismatches, b.Mismatches)
}

// nothing reports whether there is no reason left to know o.
func (o *owner) nothing() bool {
	return len(o.sources) == 0 && len(o.attachments) == 0 && !o.held.any && !o.fed && o.talk.restoring == 0
}

// recoverable reports whether nothing but a recovery, or discovery that is known
// for sure, is between o and being projected.
func (o *owner) recoverable() bool {
	for _, reason := range o.resolution.Reasons {
		switch reason {
		case kvstate.WatchUncertain, kvstate.RecoveryIdentityMismatch, kvstate.RecoveryBehindBarrier:
		default:
			return false
		}
	}
	return true
}
