package kvstate_test

import (
	"slices"
	"testing"

	"mooring/kvstate"
)

// naive is a second implementation of Resolve, written from the base as a list of
// rules that know nothing of each other: each says whether its reason holds, and
// the first in the list that does decides.
func naive(in kvstate.Inputs) (state kvstate.State, reasons []kvstate.Reason, mismatches []kvstate.Mismatch) {
	var sources []kvstate.SourceAdvertisement
	for _, s := range in.Sources {
		if s.CacheOwnerID == in.Owner {
			sources = append(sources, s)
		}
	}
	var attachments []kvstate.AttachmentAdvertisement
	for _, a := range in.Attachments {
		if a.CacheOwnerID == in.Owner {
			attachments = append(attachments, a)
		}
	}
	oneSource, oneAttachment := len(sources) == 1, len(attachments) == 1
	both := oneSource && oneAttachment
	var s kvstate.SourceAdvertisement
	var a kvstate.AttachmentAdvertisement
	if oneSource {
		s = sources[0]
	}
	if oneAttachment {
		a = attachments[0]
	}
	if both && in.Status != nil {
		mismatches = naiveMismatches(in, s, a)
	}
	other := both && in.Receipt != nil && !(in.Receipt.Identity.CacheOwnerID == in.Owner && in.Receipt.Identity.PublisherID == s.PublisherID &&
		in.Receipt.Identity.ProtocolVersion == s.ProtocolVersion && in.Receipt.AttachmentGeneration != nil &&
		*in.Receipt.AttachmentGeneration == a.AttachmentGeneration)
	behind := both && (in.Receipt == nil || in.Receipt.RecoveredThroughCursor < a.ReadyAtOutboundCursor ||
		in.Status != nil && in.Status.OutboundCursor < a.ReadyAtOutboundCursor)
	for _, rule := range []struct {
		holds  bool
		reason kvstate.Reason
	}{
		{!in.DiscoveryKnown, kvstate.WatchUncertain},
		{len(sources) == 0, kvstate.NoSource},
		{len(sources) >= 2, kvstate.AmbiguousSource},
		{len(attachments) == 0, kvstate.NoAttachment},
		{len(attachments) >= 2, kvstate.AmbiguousAttachment},
		{oneAttachment && (in.Live == nil || !in.Live(a.Worker)), kvstate.WorkerNotLive},
		{oneSource && in.Status == nil, kvstate.EndpointUnreachable},
		{len(mismatches) > 0, kvstate.StatusMismatch},
		{other, kvstate.RecoveryIdentityMismatch},
		{behind, kvstate.RecoveryBehindBarrier},
	} {
		if rule.holds {
			reasons = append(reasons, rule.reason)
		}
	}
	unavailable := []kvstate.Reason{kvstate.NoSource, kvstate.NoAttachment, kvstate.WorkerNotLive}
	switch {
	case len(reasons) == 0:
		state = kvstate.Ready
	case slices.Contains(unavailable, reasons[0]):
		state = kvstate.Unavailable
	default:
		state = kvstate.Unknown
	}
	return state, reasons, mismatches
}

func naiveMismatches(in kvstate.Inputs, s kvstate.SourceAdvertisement, a kvstate.AttachmentAdvertisement) (failed []kvstate.Mismatch) {
	attached := in.Status.Attachment != nil
	var seen kvstate.AttachmentStatus
	if attached {
		seen = *in.Status.Attachment
	}
	identity := in.Status.Identity
	agrees := map[kvstate.Mismatch]bool{
		kvstate.StatusOwner:             identity.CacheOwnerID == in.Owner,
		kvstate.CacheOwnerNotReady:      in.Status.CacheOwnerReady,
		kvstate.AttachmentPublisher:     a.PublisherID == s.PublisherID,
		kvstate.StatusPublisher:         identity.PublisherID == s.PublisherID,
		kvstate.StatusProtocol:          identity.ProtocolVersion == s.ProtocolVersion,
		kvstate.AttachmentProtocol:      a.ProtocolVersion == s.ProtocolVersion,
		kvstate.AttachmentIngress:       a.IngressProtocol == s.IngressProtocol,
		kvstate.AttachmentRank:          a.Worker.DPRank == s.GlobalDPRank,
		kvstate.SourceEventTopic:        s.EventTopic == "kv-state-events-v2",
		kvstate.AttachmentControlTarget: a.RecoveryControlTarget == s.RecoveryControlTarget,
		kvstate.StatusDetached:          attached,
		kvstate.StatusGeneration:        !attached || seen.Generation == a.AttachmentGeneration,
		kvstate.StatusWorker:            !attached || seen.Worker == a.Worker,
		kvstate.StatusBarrier:           !attached || seen.ReadyAtOutboundCursor == a.ReadyAtOutboundCursor,
		kvstate.StatusNotReady:          !attached || seen.Ready,
	}
	for m := range agrees {
		if !agrees[m] {
			failed = append(failed, m)
		}
	}
	slices.Sort(failed)
	return failed
}

func checkAgainstNaive(t *testing.T, in kvstate.Inputs) {
	t.Helper()
	r := kvstate.Resolve(in)
	state, reasons, mismatches := naive(in)
	if r.State != state || !slices.Equal(r.Reasons, reasons) || !slices.Equal(r.Mismatches, mismatches) || r.Owner != in.Owner {
		t.Fatalf("%s %v %v\nnaive: %s %v %v", r.State, r.Reasons, r.Mismatches, state, reasons, mismatches)
	}
	if len(reasons) > 0 != (r.Reason != 0) || len(reasons) > 0 && r.Reason != reasons[0] {
		t.Fatalf("decided by %s, want %v", r.Reason, reasons)
	}
	want := kvstate.Resolution{}
	if state == kvstate.Ready {
		for _, a := range in.Attachments {
			if a.CacheOwnerID == in.Owner {
				want.Worker, want.Barrier, want.Holed = a.Worker, a.ReadyAtOutboundCursor, in.Holed
			}
		}
	}
	if r.Worker != want.Worker || r.Barrier != want.Barrier || r.Holed != want.Holed {
		t.Fatalf("%s on worker %s, barrier %d, want %s, %d", r.State, r.Worker, r.Barrier, want.Worker, want.Barrier)
	}
}

func TestResolveAgreesWithNaive(t *testing.T) {
	all := decisions()
	for _, first := range all {
		for _, second := range all {
			in := ready()
			first.make(&in)
			// A change may have taken away what the second one changes.
			if len(in.Sources) > 0 && len(in.Attachments) > 0 && in.Status != nil && in.Status.Attachment != nil && in.Receipt != nil {
				second.make(&in)
			}
			checkAgainstNaive(t, in)
		}
	}
}

// choices turns fuzz input into small decisions; when it ends, all are 0.
type choices []byte

func (c *choices) of(n int) int {
	if len(*c) == 0 {
		return 0
	}
	v := int((*c)[0]) % n
	*c = (*c)[1:]
	return v
}

// inputs builds any inputs at all, near enough to ready to get far.
func (c *choices) inputs() kvstate.Inputs {
	in := ready()
	in.DiscoveryKnown = c.of(8) == 0
	in.Sources = nil
	for range []int{1, 0, 2, 3}[c.of(4)] {
		in.Sources = append(in.Sources, c.source())
	}
	in.Attachments = nil
	for range []int{1, 0, 2, 3}[c.of(4)] {
		in.Attachments = append(in.Attachments, c.attachment())
	}
	if live := c.of(8); live > 0 {
		in.Live = func(w kvstate.Worker) bool { return live < 6 && int(w.DPRank)%live == 0 }
	}
	if c.of(8) == 7 {
		in.Live = nil
	}
	in.Status, in.Receipt, in.Holed = c.status(), c.receipt(), c.of(2) == 1
	return in
}

func (c *choices) owner() kvstate.CacheOwnerID { return owner([]byte{4, 4, 4, 5}[c.of(4)]) }

func (c *choices) publisher() uint64 { return []uint64{41, 41, 41, 42}[c.of(4)] }

func (c *choices) version() kvstate.ProtocolVersion {
	return []kvstate.ProtocolVersion{kvstate.V2, kvstate.V2, kvstate.V2, 3}[c.of(4)]
}

func (c *choices) near(v uint64) uint64 {
	return []uint64{v, v, v, v - 1, v + 1, 0, 1<<64 - 1}[c.of(7)]
}

func (c *choices) identity() kvstate.AgentIdentity {
	return kvstate.AgentIdentity{CacheOwnerID: c.owner(), PublisherID: c.publisher(), ProtocolVersion: c.version()}
}

func (c *choices) worker() kvstate.Worker {
	return kvstate.Worker{WorkerID: c.near(17), DPRank: uint32(c.near(3))}
}

func (c *choices) source() kvstate.SourceAdvertisement {
	s := source()
	s.CacheOwnerID, s.PublisherID, s.ProtocolVersion, s.GlobalDPRank = c.owner(), c.publisher(), c.version(), uint32(c.near(3))
	s.IngressProtocol = kvstate.IngressProtocol(2 - c.of(2))
	s.EventTopic = []string{kvstate.EventTopic, kvstate.EventTopic, "", kvstate.SourceTopic}[c.of(4)]
	s.RecoveryControlTarget.InstanceID = c.near(17)
	return s
}

func (c *choices) attachment() kvstate.AttachmentAdvertisement {
	a := attachment()
	a.CacheOwnerID, a.PublisherID, a.ProtocolVersion, a.Worker = c.owner(), c.publisher(), c.version(), c.worker()
	a.IngressProtocol = kvstate.IngressProtocol(2 - c.of(2))
	a.RecoveryControlTarget.InstanceID = c.near(17)
	a.AttachmentGeneration, a.ReadyAtOutboundCursor = c.near(7), c.near(9)
	return a
}

func (c *choices) status() *kvstate.AgentStatus {
	if c.of(6) == 5 {
		return nil
	}
	s := kvstate.AgentStatus{Identity: c.identity(), CacheOwnerReady: c.of(6) != 5, OutboundCursor: c.near(9)}
	if c.of(6) != 5 {
		s.Attachment = &kvstate.AttachmentStatus{Generation: c.near(7), Worker: c.worker(), Ready: c.of(6) != 5, ReadyAtOutboundCursor: c.near(9)}
	}
	return &s
}

func (c *choices) receipt() *kvstate.RecoveryReceipt {
	if c.of(6) == 5 {
		return nil
	}
	r := kvstate.RecoveryReceipt{Identity: c.identity(), RecoveredThroughCursor: c.near(9)}
	if c.of(6) != 5 {
		r.AttachmentGeneration = ptr(c.near(7))
	}
	return &r
}

func FuzzResolve(f *testing.F) {
	f.Add([]byte{})
	for i := range byte(60) {
		seed := make([]byte, 60)
		seed[i] = 3 + i%4
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := choices(data)
		checkAgainstNaive(t, c.inputs())
	})
}
