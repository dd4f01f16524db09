package kvstate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mooring/kvstate"
)

// ready returns inputs that resolve to Ready: worker 17:3, barrier 9.
func ready() kvstate.Inputs {
	status, receipt := status(), receipt()
	return kvstate.Inputs{
		DiscoveryKnown: true, Owner: owner(4),
		Sources:     []kvstate.SourceAdvertisement{source()},
		Attachments: []kvstate.AttachmentAdvertisement{attachment()},
		Live:        func(w kvstate.Worker) bool { return w == worker() },
		Status:      &status, Receipt: &receipt,
	}
}

// decision is one row of the table: what differs from ready, and what follows.
type decision struct {
	step   string
	change string
	make   func(in *kvstate.Inputs)
	want   string // "Ready" or the decisive reason
}

// decisions has each step of the base's 2.5 both ways.
func decisions() []decision {
	type in = *kvstate.Inputs
	return []decision{
		{"1", "discovery is known", func(in) {}, "ready"},
		{"1", "discovery is not known", func(i in) { i.DiscoveryKnown = false }, "watch_uncertain"},
		{"1", "discovery is not known, nor anything else", func(i in) { *i = kvstate.Inputs{Owner: i.Owner} }, "watch_uncertain"},
		{"1", "discovery is not known, all else ambiguous", func(i in) {
			i.DiscoveryKnown, i.Sources, i.Attachments = false, slices.Repeat(i.Sources, 2), slices.Repeat(i.Attachments, 2)
		}, "watch_uncertain"},
		{"2", "one source, and one of another owner", func(i in) {
			other := source()
			other.CacheOwnerID = owner(5)
			i.Sources = append(i.Sources, other)
		}, "ready"},
		{"2", "no source", func(i in) { i.Sources = nil }, "no_source"},
		{"2", "a source of another owner only", func(i in) { i.Sources[0].CacheOwnerID = owner(5) }, "no_source"},
		{"2", "a source of an owner with another identity source only", func(i in) { i.Sources[0].CacheOwnerID.Slot.Source = kvstate.DefaultDerived }, "no_source"},
		{"2", "two identical sources", func(i in) { i.Sources = slices.Repeat(i.Sources, 2) }, "ambiguous_source"},
		{"2", "two sources, old and new publisher", func(i in) {
			i.Sources = slices.Repeat(i.Sources, 2)
			i.Sources[1].PublisherID = 42
		}, "ambiguous_source"},
		{"2", "two sources and no attachment", func(i in) { i.Sources, i.Attachments = slices.Repeat(i.Sources, 2), nil }, "ambiguous_source"},
		{"3", "one attachment, and one of another owner", func(i in) {
			other := attachment()
			other.CacheOwnerID = owner(5)
			i.Attachments = append(i.Attachments, other)
		}, "ready"},
		{"3", "no attachment", func(i in) { i.Attachments = nil }, "no_attachment"},
		{"3", "two identical attachments", func(i in) { i.Attachments = slices.Repeat(i.Attachments, 2) }, "ambiguous_attachment"},
		{"3", "a stale generation beside the live one, of a dead worker", func(i in) {
			stale := attachment()
			stale.AttachmentGeneration, stale.Worker.WorkerID = 6, 16
			i.Attachments = append(i.Attachments, stale)
		}, "ambiguous_attachment"},
		{"3", "an attachment of another publisher beside it", func(i in) {
			other := attachment()
			other.PublisherID = 42
			i.Attachments = append(i.Attachments, other)
		}, "ambiguous_attachment"},
		{"4", "the worker is live", func(i in) { i.Live = func(kvstate.Worker) bool { return true } }, "ready"},
		{"4", "the worker is not live", func(i in) { i.Live = func(kvstate.Worker) bool { return false } }, "worker_not_live"},
		{"4", "another rank of the worker is live", func(i in) { i.Live = func(w kvstate.Worker) bool { return w.DPRank == 0 } }, "worker_not_live"},
		{"4", "nobody knows who is live", func(i in) { i.Live = nil }, "worker_not_live"},
		{"4", "not live, and no status", func(i in) { i.Live, i.Status = nil, nil }, "worker_not_live"},
		{"5", "a status", func(in) {}, "ready"},
		{"5", "no status", func(i in) { i.Status = nil }, "endpoint_unreachable"},
		{"5", "no status and no receipt", func(i in) { i.Status, i.Receipt = nil, nil }, "endpoint_unreachable"},
		{"6", "source, attachment and status agree", func(in) {}, "ready"},
		{"6", "status of another owner", func(i in) { i.Status.Identity.CacheOwnerID = owner(5) }, "status_mismatch"},
		{"6", "cache owner not ready", func(i in) { i.Status.CacheOwnerReady = false }, "status_mismatch"},
		{"6", "attachment by another publisher", func(i in) { i.Attachments[0].PublisherID = 42 }, "status_mismatch"},
		{"6", "status of another publisher", func(i in) { i.Status.Identity.PublisherID = 42 }, "status_mismatch"},
		{"6", "source of another publisher", func(i in) { i.Sources[0].PublisherID = 42 }, "status_mismatch"},
		{"6", "status of another protocol", func(i in) { i.Status.Identity.ProtocolVersion = 3 }, "status_mismatch"},
		{"6", "attachment of another protocol", func(i in) { i.Attachments[0].ProtocolVersion = 3 }, "status_mismatch"},
		{"6", "attachment of another ingress protocol", func(i in) { i.Attachments[0].IngressProtocol = kvstate.FrameworkV1 }, "status_mismatch"},
		{"6", "both of the other ingress protocol", func(i in) {
			i.Attachments[0].IngressProtocol, i.Sources[0].IngressProtocol = kvstate.FrameworkV1, kvstate.FrameworkV1
		}, "ready"},
		{"6", "source of another rank", func(i in) { i.Sources[0].GlobalDPRank = 4 }, "status_mismatch"},
		{"6", "another event topic", func(i in) { i.Sources[0].EventTopic = "kv-state-events-v3" }, "status_mismatch"},
		{"6", "another control target", func(i in) { i.Attachments[0].RecoveryControlTarget.Transport.Address = "tcp://127.0.0.1:1235" }, "status_mismatch"},
		{"6", "status without an attachment", func(i in) { i.Status.Attachment = nil }, "status_mismatch"},
		{"6", "status of an earlier generation", func(i in) { i.Status.Attachment.Generation = 6 }, "status_mismatch"},
		{"6", "status of a later generation", func(i in) { i.Status.Attachment.Generation = 8 }, "status_mismatch"},
		{"6", "status of another worker", func(i in) { i.Status.Attachment.Worker.WorkerID = 18 }, "status_mismatch"},
		{"6", "status of another rank", func(i in) { i.Status.Attachment.Worker.DPRank = 0 }, "status_mismatch"},
		{"6", "status with a lower barrier", func(i in) { i.Status.Attachment.ReadyAtOutboundCursor = 8 }, "status_mismatch"},
		{"6", "status with a higher barrier", func(i in) { i.Status.Attachment.ReadyAtOutboundCursor = 10 }, "status_mismatch"},
		{"6", "attachment not ready", func(i in) { i.Status.Attachment.Ready = false }, "status_mismatch"},
		{"6", "attachment not ready, and no receipt", func(i in) { i.Status.Attachment.Ready, i.Receipt = false, nil }, "status_mismatch"},
		{"7", "a receipt", func(in) {}, "ready"},
		{"7", "no receipt", func(i in) { i.Receipt = nil }, "recovery_behind_barrier"},
		{"8", "receipt of this agent and generation", func(in) {}, "ready"},
		{"8", "receipt of another owner", func(i in) { i.Receipt.Identity.CacheOwnerID = owner(5) }, "recovery_identity_mismatch"},
		{"8", "receipt of another publisher", func(i in) { i.Receipt.Identity.PublisherID = 42 }, "recovery_identity_mismatch"},
		{"8", "receipt of another protocol", func(i in) { i.Receipt.Identity.ProtocolVersion = 3 }, "recovery_identity_mismatch"},
		{"8", "receipt of another generation", func(i in) { i.Receipt.AttachmentGeneration = ptr(uint64(6)) }, "recovery_identity_mismatch"},
		{"8", "receipt of the cache owner alone", func(i in) { i.Receipt.AttachmentGeneration = nil }, "recovery_identity_mismatch"},
		{"8", "receipt of another publisher, behind the barrier", func(i in) {
			i.Receipt.Identity.PublisherID, i.Receipt.RecoveredThroughCursor = 42, 8
		}, "recovery_identity_mismatch"},
		{"9", "agent one before the barrier", func(i in) { i.Status.OutboundCursor = 8 }, "recovery_behind_barrier"},
		{"9", "agent at the barrier", func(i in) { i.Status.OutboundCursor = 9 }, "ready"},
		{"9", "recovery one before the barrier", func(i in) { i.Receipt.RecoveredThroughCursor = 8 }, "recovery_behind_barrier"},
		{"9", "recovery at the barrier", func(i in) { i.Receipt.RecoveredThroughCursor = 9 }, "ready"},
		{"9", "recovery past the agent's own cursor", func(i in) { i.Receipt.RecoveredThroughCursor = 1<<64 - 1 }, "ready"},
		{"10", "other endpoint, block size and domain, which are not compared", func(i in) {
			i.Sources[0].KVBlockSize, i.Sources[0].KVStateEndpoint, i.Sources[0].IndexerDomainID = 1, kvstate.EndpointID{}, kvstate.IndexerDomainID{}
		}, "ready"},
		{"10", "other producer, incarnation and hints, which are not compared", func(i in) {
			i.Attachments[0].ProducerInstance, i.Attachments[0].IntentIncarnation = kvstate.Instance{}, 0
			i.Sources[0].RouterHintSource = &kvstate.RouterHintSource{}
		}, "ready"},
		{"10", "with holes", func(i in) { i.Holed = true }, "ready"},
	}
}

// TestDecisionTable prints every decision into testdata/resolve.txt.
func TestDecisionTable(t *testing.T) {
	var table strings.Builder
	fmt.Fprintln(&table, "step | inputs differ from a ready owner by | decision | further reasons | mismatches")
	for _, d := range decisions() {
		in := ready()
		d.make(&in)
		r := kvstate.Resolve(in)
		got := r.State.String()
		if r.State != kvstate.Ready {
			got = r.Reason.String()
		}
		if got != d.want {
			t.Errorf("step %s, %s: %s, want %s", d.step, d.change, got, d.want)
		}
		fmt.Fprintf(&table, "%s | %s | %s | %s | %s\n", d.step, d.change, describe(r), words(r.Reasons[min(1, len(r.Reasons)):]), words(r.Mismatches))
	}
	golden(t, "resolve.txt", table.String())
}

func describe(r kvstate.Resolution) string {
	if r.State != kvstate.Ready {
		return fmt.Sprintf("%s: %s", r.State, r.Reason)
	}
	holed := ""
	if r.Holed {
		holed = ", holed"
	}
	return fmt.Sprintf("ready: worker %s, barrier %d%s", r.Worker, r.Barrier, holed)
}

func words[T fmt.Stringer](list []T) string {
	var all []string
	for _, v := range list {
		all = append(all, v.String())
	}
	return strings.Join(all, " ")
}

// TestEveryReasonAndMismatchIsReached: none is declared in vain, and each has a name.
func TestEveryReasonAndMismatchIsReached(t *testing.T) {
	reasons, mismatches := make(map[kvstate.Reason]bool), make(map[kvstate.Mismatch]bool)
	for _, d := range decisions() {
		in := ready()
		d.make(&in)
		r := kvstate.Resolve(in)
		if r.Reason != 0 {
			reasons[r.Reason] = true
		}
		if len(r.Mismatches) == 1 {
			mismatches[r.Mismatches[0]] = true
		}
	}
	for r := kvstate.WatchUncertain; r <= kvstate.RecoveryBehindBarrier; r++ {
		if !reasons[r] || strings.HasPrefix(r.String(), "unknown") {
			t.Errorf("reason %s decides no row", r)
		}
	}
	for m := kvstate.StatusOwner; m <= kvstate.StatusNotReady; m++ {
		if !mismatches[m] || strings.HasPrefix(m.String(), "unknown") {
			t.Errorf("mismatch %s is alone in no row", m)
		}
	}
	if last := kvstate.RecoveryBehindBarrier + 1; !strings.HasPrefix(last.String(), "unknown") {
		t.Errorf("%s is not tested", last)
	}
	if last := kvstate.StatusNotReady + 1; !strings.HasPrefix(last.String(), "unknown") {
		t.Errorf("%s is not tested", last)
	}
}

func TestResolveChangesNothing(t *testing.T) {
	for _, d := range decisions() {
		in, same := ready(), ready()
		d.make(&in)
		d.make(&same)
		first := kvstate.Resolve(in)
		if second := kvstate.Resolve(in); fmt.Sprint(first) != fmt.Sprint(second) {
			t.Errorf("%s: %v, then %v", d.change, first, second)
		}
		if diff := cmp.Diff([]any{same.Sources, same.Attachments, same.Status, same.Receipt}, []any{in.Sources, in.Attachments, in.Status, in.Receipt}); diff != "" {
			t.Errorf("%s: inputs were changed:\n%s", d.change, diff)
		}
	}
}
