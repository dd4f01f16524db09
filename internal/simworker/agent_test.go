package simworker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mooring/kvstate"
	"mooring/kvstate/blockhash"
)

// A worker's whole life as a router sees it: attached, serving, its engine
// replaced, detached, attached elsewhere, and gone.
func TestAgentLife(t *testing.T) {
	s := serveAgent(t, Config{})
	r, _ := s.resolve(t)
	if r.State != kvstate.Ready || r.Worker != (kvstate.Worker{WorkerID: agentWorker}) || r.Barrier != 1 {
		t.Fatalf("at first: %+v", r)
	}
	if _, ok := s.sources(t)[fmt.Sprint(uint64(agentPublisher))]; !ok {
		t.Error("the source's record is not called by its publisher id")
	}
	if _, ok := s.attachments(t)[fmt.Sprint(kvstate.AttachmentRecordID(agentPublisher, 1))]; !ok {
		t.Error("the attachment's record is not called by its record id")
	}

	tokens, request := s.promptOf(t, "a prompt of quite some words, for it to have blocks")
	want := blockhash.Append(nil, tokens, 4, blockhash.Seed("", ""))
	s.post(t, 200, "/v1/completions", request)
	cursor := s.settle(t, 3) // the barrier, one store in each domain
	_, dump := s.resolve(t)
	for domain, held := range map[kvstate.Domain][]uint64{
		kvstate.WorkerDomain: locals(t, dump, kvstate.WorkerDomain), kvstate.CacheOwnerDomain: locals(t, dump, kvstate.CacheOwnerDomain),
	} {
		if !slices.Equal(held, want) {
			t.Errorf("%s domain: blocks %x, want %x", domain, held, want)
		}
	}

	s.post(t, 204, "/debug/engine/restart", "")
	r, dump = s.resolve(t)
	if r.State != kvstate.Ready || r.Barrier != cursor+2 || dump.LastEventID != cursor+2 {
		t.Errorf("after the restart: %+v, cursor %d, was %d", r, dump.LastEventID, cursor)
	}
	if a := only(t, s.attachments(t)); a.AttachmentGeneration != 2 {
		t.Errorf("generation %d", a.AttachmentGeneration)
	}
	if got := locals(t, dump, kvstate.CacheOwnerDomain); !slices.Equal(got, want) || len(locals(t, dump, kvstate.WorkerDomain)) != 0 {
		t.Errorf("after the restart %d of %d blocks of the cache owner are left, and %d of the engine", len(got), len(want), len(locals(t, dump, kvstate.WorkerDomain)))
	}

	s.post(t, 204, "/debug/agent/detach", "")
	s.post(t, 409, "/debug/agent/detach", "")
	if n := len(s.attachments(t)); n != 0 {
		t.Errorf("%d attachments after the detachment", n)
	}
	s.detached(t, want)

	s.post(t, 204, "/debug/agent/attach?worker_id=99", "")
	s.post(t, 409, "/debug/agent/attach", "")
	if r, _ = s.resolve(t); r.State != kvstate.Ready || r.Worker.WorkerID != 99 || r.Barrier != cursor+4 {
		t.Errorf("attached elsewhere: %+v", r)
	}
	s.post(t, 200, "/v1/completions", request)
	s.post(t, 200, "/reset_prefix_cache?reset_external=true", "")
	s.settle(t, cursor+5)
	if _, dump = s.resolve(t); len(dump.Events) != 0 {
		t.Errorf("after all was reset: %+v", dump.Events)
	}
	s.post(t, 204, "/debug/agent/detach", "")
	if got := s.settle(t, 0); got != cursor+6 { // of the engine here nothing counted, only the host pool's clearing
		t.Errorf("cursor %d, want %d", got, cursor+6)
	}
	s.end(t)
	if n, m := len(s.sources(t)), len(s.attachments(t)); n+m != 0 {
		t.Errorf("%d sources and %d attachments are left behind", n, m)
	}
}

// detached checks what an agent says without an engine.
func (s *agentServing) detached(t *testing.T, want []uint64) {
	t.Helper()
	if status := s.query(t, kvstate.QueryStatus, nil).Status; status.Attachment != nil || !status.CacheOwnerReady {
		t.Errorf("status %+v", status)
	}
	reply := s.query(t, kvstate.QueryStateAgentRecovery, nil).StateAgentRecovery
	dump := reply.Response.TreeDump
	if got := locals(t, dump, kvstate.CacheOwnerDomain); !slices.Equal(got, want) || len(locals(t, dump, kvstate.WorkerDomain)) != 0 {
		t.Errorf("recovery of the cache owner: %x, want %x", got, want)
	}
	if dump.ResetScope != (kvstate.ResetScope{Limited: true, Domain: kvstate.CacheOwnerDomain}) || reply.Receipt.AttachmentGeneration != nil {
		t.Errorf("scope %+v, receipt %+v", dump.ResetScope, reply.Receipt)
	}
	ranged := s.query(t, kvstate.QueryStateAgentRecovery, func(q *kvstate.QueryRequest) { q.StartEventID = new(uint64) })
	legacy := s.query(t, kvstate.QueryRecovery, nil)
	if ranged.Error == nil || legacy.Error == nil {
		t.Errorf("a range %+v, and a legacy recovery %+v, are to be refused", ranged, legacy)
	}
}

// What each fault makes a router think.
func TestAgentFaults(t *testing.T) {
	s := serveAgent(t, Config{Agent: StateAgent{Delay: 30 * time.Millisecond, Fault: AgentGeneration}})
	expect := func(what string, state kvstate.State, reason kvstate.Reason) {
		t.Helper()
		if r, _ := s.resolve(t); r.State != state || r.Reason != reason {
			t.Errorf("%s: %+v", what, r)
		}
	}
	expect("generation", kvstate.Unknown, kvstate.StatusMismatch)
	s.post(t, 204, "/debug/agent/fault?set=identity", "")
	expect("identity", kvstate.Unknown, kvstate.RecoveryIdentityMismatch)
	s.post(t, 204, "/debug/agent/fault?set=behind", "")
	expect("behind", kvstate.Unknown, kvstate.RecoveryBehindBarrier)
	s.post(t, 204, "/debug/agent/fault?set=late", "")
	begin := time.Now()
	s.query(t, kvstate.QueryStatus, nil)
	if took := time.Since(begin); took < 30*time.Millisecond {
		t.Errorf("late: %v", took)
	}
	s.post(t, 204, "/debug/agent/fault?set=none", "")
	expect("none", kvstate.Ready, 0)
	s.post(t, 400, "/debug/agent/fault?set=loud", "")
	s.post(t, 400, "/debug/agent/attach?worker_id=x", "")
	s.post(t, 404, "/debug/agent/attach?rank=1", "")
	s.post(t, 404, controlPath+"1", "{}")
	s.post(t, 400, controlPath+"0", "{")
	s.post(t, 413, controlPath+"0", strings.Repeat(" ", maxQueryBytes+1))
}
