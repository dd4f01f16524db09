package reconcile

import (
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"mooring/internal/fleet"
	"mooring/kvstate"
)

// arguments of a command.
type arguments struct {
	t *testing.T
	d *datadriven.TestData
}

func (a arguments) text(key, otherwise string) string {
	if a.d.HasArg(key) {
		a.d.ScanArgs(a.t, key, &otherwise)
	}
	return otherwise
}

func (a arguments) number(key string, otherwise uint64) uint64 {
	n, err := strconv.ParseUint(a.text(key, strconv.FormatUint(otherwise, 10)), 10, 64)
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

func (a arguments) worker(key, otherwise string) kvstate.Worker {
	id, rank, _ := strings.Cut(a.text(key, otherwise), ":")
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		a.t.Fatal(err)
	}
	r, _ := strconv.ParseUint(rank, 10, 32)
	return kvstate.Worker{WorkerID: n, DPRank: uint32(r)}
}

// scope is what a full state replaces.
func (a arguments) scope() (s kvstate.ResetScope) {
	if a.d.HasArg("scope") {
		s.Limited = true
		if err := s.Domain.UnmarshalText([]byte(a.text("scope", ""))); err != nil {
			a.t.Fatal(err)
		}
	}
	return s
}

func (a arguments) owner() kvstate.CacheOwnerID { return testOwner(a.text("owner", "A")[0]) }

func (s *script) fleet(text string) {
	var all []fleet.Worker
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		id, _ := strconv.ParseUint(fields[0], 10, 64)
		w := fleet.Worker{ID: fleet.WorkerID(id), Models: []string{"m"}, Group: "g", Ranks: 2, State: fleet.Active}
		for _, f := range fields[1:] {
			if model, ok := strings.CutPrefix(f, "model="); ok {
				w.Models = []string{model}
			}
			for _, state := range fleet.States {
				if f == state.String() {
					w.State = state
				}
			}
		}
		all = append(all, w)
	}
	s.core.see(fleet.NewView(all))
}

func (s *script) source(a arguments) kvstate.SourceAdvertisement {
	r := sourceRecord(a.number("pub", 1))
	r.CacheOwnerID, r.IndexerDomainID = a.owner(), a.owner().Pool.IndexerDomain
	r.KVBlockSize = uint32(a.number("block", 16))
	r.GlobalDPRank = uint32(a.number("rank", 0))
	r.RecoveryControlTarget = s.target(a)
	return r
}

func (s *script) target(a arguments) kvstate.Instance {
	target := testTarget("http://agent")
	if a.text("target", "http") == "tcp" {
		target.Transport = kvstate.Transport{Kind: kvstate.TCP, Address: "tcp://agent"}
	}
	return target
}

func (s *script) attachment(a arguments) kvstate.AttachmentAdvertisement {
	r := attachmentRecord(a.number("pub", 1), a.number("gen", 1))
	r.CacheOwnerID, r.Worker, r.ReadyAtOutboundCursor = a.owner(), a.worker("worker", "1"), a.number("barrier", 1)
	r.RecoveryControlTarget = s.target(a)
	return r
}

// attached returns what the owner's records say, as defaults for answers.
func (s *script) attached(a arguments) (pub uint64, at kvstate.AttachmentAdvertisement) {
	o := s.core.owner(a.owner())
	if source, ok := sole(o.sources); ok {
		pub = source.PublisherID
	}
	at, _ = sole(o.attachments)
	return pub, at
}

func (s *script) identity(a arguments) kvstate.AgentIdentity {
	pub, _ := s.attached(a)
	return kvstate.AgentIdentity{CacheOwnerID: a.owner(), PublisherID: a.number("pub", pub), ProtocolVersion: kvstate.V2}
}

func (s *script) status(a arguments) *kvstate.AgentStatus {
	_, at := s.attached(a)
	st := &kvstate.AgentStatus{
		Identity: s.identity(a), CacheOwnerReady: !a.d.HasArg("unsure"), OutboundCursor: a.number("cursor", 1),
		EventEndpoint: a.text("endpoint", ""),
	}
	if !a.d.HasArg("detached") {
		st.Attachment = &kvstate.AttachmentStatus{
			Generation: a.number("gen", at.AttachmentGeneration), Worker: a.worker("worker", at.Worker.String()),
			Ready: !a.d.HasArg("unready"), ReadyAtOutboundCursor: a.number("barrier", at.ReadyAtOutboundCursor),
		}
	}
	return st
}

func (s *script) recovery(a arguments, r kvstate.QueryResponse) kvstate.QueryResponse {
	_, at := s.attached(a)
	generation := a.number("gen", at.AttachmentGeneration)
	return kvstate.QueryResponse{StateAgentRecovery: &kvstate.StateAgentRecoveryReply{Response: r, Receipt: kvstate.RecoveryReceipt{
		Identity: s.identity(a), AttachmentGeneration: &generation, RecoveredThroughCursor: a.number("through", a.number("cursor", 1)),
	}}}
}

// events reads one event a line: "5 store device worker=1 blocks=10,11", "6 remove
// host_pinned owner=A blocks=10", "7 clear worker=1", "7 clear owner=A".
func events(a arguments) []kvstate.RouterEvent {
	var all []kvstate.RouterEvent
	for line := range strings.Lines(a.d.Input) {
		all = append(all, event(a, strings.Fields(line)))
	}
	return all
}

func event(a arguments, fields []string) kvstate.RouterEvent {
	id, _ := strconv.ParseUint(fields[0], 10, 64)
	e := kvstate.RouterEvent{EventID: id, Domain: kvstate.InDomain(kvstate.WorkerDomain)}
	var blocks []uint64
	for _, f := range fields[2:] {
		key, value, _ := strings.Cut(f, "=")
		switch key {
		case "worker":
			w := arguments{a.t, a.d}.worker("", value)
			e.WorkerID, e.DPRank = w.WorkerID, w.DPRank
		case "owner":
			source := testOwner(value[0])
			e.StateSource, e.Domain = &source, kvstate.InDomain(kvstate.CacheOwnerDomain)
		case "blocks":
			for n := range strings.SplitSeq(value, ",") {
				b, _ := strconv.ParseUint(n, 10, 64)
				blocks = append(blocks, b)
			}
		default:
			if err := e.Tier.UnmarshalText([]byte(key)); err != nil {
				a.t.Fatal(err)
			}
		}
	}
	switch fields[1] {
	case "store":
		e.Kind = kvstate.Stored
		for _, b := range blocks {
			e.Store.Blocks = append(e.Store.Blocks, kvstate.Block{External: b, Local: b})
		}
	case "remove":
		e.Kind, e.Removed = kvstate.Removed, blocks
	case "clear":
		e.Kind = kvstate.Cleared
	default:
		a.t.Fatalf("no event %q", fields[1])
	}
	return e
}

func (s *script) feed(a arguments) {
	owner, w := testOwner(a.text("owner", "F")[0]), a.worker("worker", "1")
	switch a.d.CmdArgs[0].Key {
	case "starts":
		if !s.core.feedStarts(owner, w, fleet.Partition{Model: "m", Group: "g"}) {
			s.out.WriteString("must wait\n")
		}
	case "says":
		source, at := sourceRecord(99), attachmentRecord(99, 1)
		source.CacheOwnerID, at.CacheOwnerID, at.Worker = owner, owner, w
		source.GlobalDPRank, source.IndexerDomainID = w.DPRank, owner.Pool.IndexerDomain
		identity := kvstate.AgentIdentity{CacheOwnerID: owner, PublisherID: 99, ProtocolVersion: kvstate.V2}
		generation := uint64(1)
		s.core.feedSays(owner, testimony{
			source: &source, attachment: &at, holed: a.d.HasArg("holed"),
			status: &kvstate.AgentStatus{Identity: identity, CacheOwnerReady: true, OutboundCursor: 1,
				Attachment: &kvstate.AttachmentStatus{Generation: 1, Worker: w, Ready: true, ReadyAtOutboundCursor: 1}},
			receipt: &kvstate.RecoveryReceipt{Identity: identity, AttachmentGeneration: &generation, RecoveredThroughCursor: 1},
		})
	case "stops":
		s.core.feedStops(owner)
	case "ended":
		s.core.feedEnded(owner)
	}
}
