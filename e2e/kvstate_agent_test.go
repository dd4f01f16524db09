package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// agentStack is a stack whose replica reads the records of state agents.
type agentStack struct {
	*stack
	records string // their directory
}

// newAgentStack starts workers of which each runs a state agent if it has flags,
// and a replica that reads the agents' records. It knows of the engines from their
// agents alone.
func newAgentStack(t *testing.T, flags ...[]string) agentStack {
	t.Helper()
	records := filepath.Join(t.TempDir(), "records")
	cfg := stackConfig{yaml: kvYAML + fmt.Sprintf("kvstate: {records_dir: %q}\n", records), workerKeys: func(*simWorker) string { return "" }}
	for i, more := range flags {
		cfg.models = append(cfg.models, "sim")
		if more != nil {
			more = append([]string{"--state-agent", records, "--cache-owner", fmt.Sprint("pool-", i), "--host-blocks", "1000"}, more...)
		}
		cfg.flagsOfEach = append(cfg.flagsOfEach, more)
	}
	return agentStack{newKVStack(t, cfg), records}
}

// ready waits until the only cache owner is ready on a worker, and returns it.
func (s *stack) ready(w *simWorker) kvOwner {
	s.t.Helper()
	id, state := s.known(w).ID, ""
	defer s.ifFailed(&state)
	eventually(s.t, 10*time.Second, "the cache owner is ready on "+w.address, func() bool {
		owners := s.owners()
		state = fmt.Sprintf("%+v", owners)
		return len(owners) == 1 && owners[0].Resolution == "ready" && owners[0].WorkerID == id
	})
	return s.owners()[0]
}

// TestKVOwnersOutliveTheirEngines moves a cache owner, whose state agent lives on,
// from engine to engine: to another worker, then, when that is killed, to a third,
// and at last to a new engine in the first one's process.
func TestKVOwnersOutliveTheirEngines(t *testing.T) {
	t.Parallel()
	s := newAgentStack(t, []string{}, nil, nil)
	agent, second, third := s.workers[0], s.workers[1], s.workers[2]
	first := s.ready(agent)
	s.seed(agent.address, "Astronomy")
	own, host := agent.full("device"), agent.full("host")
	eventually(t, 10*time.Second, "its blocks are known", func() bool { return s.explain("any", "Astronomy").at(t, agent).Device > 20 })
	if n := s.wouldGo(100, "Astronomy", agent); n <= 95 {
		t.Errorf("%d of 100 new conversations would go to the holder", n)
	}

	// The attachment is withdrawn: nothing is projected, nothing attracts.
	agent.tell("/debug/agent/detach", "")
	eventually(t, 2*time.Second, "the owner is not projected", func() bool { return s.owners()[0].Resolution != "ready" })
	t.Logf("withdrawn: %+v", s.owners()[0])
	n, e := s.wouldGo(100, "Astronomy", agent), s.explain("any", "Astronomy")
	t.Logf("%d of 100 would go to the worker whose attachment is withdrawn", n)
	if n < 15 || n > 55 {
		t.Errorf("%d of 100 new conversations would go there, want about a third", n)
	}
	if c := e.at(t, agent); c.Device != 0 || c.Host != 0 || e.Prompt.Source != "tokenizer" {
		t.Errorf("without a projection it counts %+v, prompt %+v", c, e.Prompt)
	}

	// The owner is attached to another worker: what outlives engines counts there.
	agent.tell("/debug/agent/attach?worker_id="+s.known(second).ID, "")
	moved := s.ready(second)
	if moved.Owner != first.Owner {
		t.Errorf("the owner was %s and is %s", first.Owner, moved.Owner)
	}
	s.wantHeld(second, own, host)
	s.wantTrials(t, 40, second, func(i int) reply { return s.ask(fmt.Sprint("moved-", i), "Astronomy", fmt.Sprint("And ", i, "?")) })

	// That worker dies, and its owner gets another one.
	second.kill()
	dead := time.Now()
	eventually(t, 2*time.Second, "the dead worker's owner is not projected", func() bool { return s.owners()[0].Resolution != "ready" })
	t.Logf("unprojected %v after the kill: %+v", time.Since(dead).Round(10*time.Millisecond), s.owners()[0])
	s.wantNothingAt(second)
	agent.tell("/debug/agent/detach", "")
	agent.tell("/debug/agent/attach?worker_id="+s.known(third).ID, "")
	if replaced := s.ready(third); replaced.Owner != first.Owner || replaced.Barrier == moved.Barrier {
		t.Errorf("the owner was %+v and is %+v, want another barrier", moved, replaced)
	}
	s.wantHeld(third, own, host)
	s.wantTrials(t, 40, third, func(i int) reply { return s.ask(fmt.Sprint("replaced-", i), "Astronomy", fmt.Sprint("And ", i, "?")) })

	// A new engine in the agent's own process.
	agent.tell("/debug/agent/detach", "")
	agent.tell("/debug/engine/restart", "")
	s.ready(agent)
	if agent.full("device") != 0 || agent.full("host") < host {
		t.Errorf("the new engine has %d blocks, and %d in host memory; want 0 and at least %d", agent.full("device"), agent.full("host"), host)
	}
	s.wantHeld(agent, own, host)
	r := s.ask("back", "Astronomy", "And at last?")
	if at := r.header.Get("X-Sim-Worker"); at != agent.address {
		t.Errorf("the last conversation went to %s, want %s", at, agent.address)
	}
	eventually(t, 10*time.Second, "the new engine's blocks are known", func() bool { return s.explain("any", "Astronomy").at(t, agent).Device > 20 })
}

// TestKVAgentThatDies kills a state agent that has another worker's engine attached,
// and starts another one for the same KV pool.
func TestKVAgentThatDies(t *testing.T) {
	t.Parallel()
	s := newAgentStack(t, []string{}, nil)
	agent, engine := s.workers[0], s.workers[1]
	s.seed(agent.address, "Astronomy")
	first := s.ready(agent)
	agent.tell("/debug/agent/detach", "")
	agent.tell("/debug/agent/attach?worker_id="+s.known(engine).ID, "")
	s.ready(engine)
	s.wantHeld(engine, agent.full("device"), agent.full("host"))

	agent.kill()
	dead := time.Now()
	eventually(t, 3*time.Second, "the dead agent's owner is not projected", func() bool { return s.owners()[0].Resolution != "ready" })
	t.Logf("unprojected %v after the kill: %+v", time.Since(dead).Round(10*time.Millisecond), s.owners()[0])
	if o := s.owners()[0]; o.Reason != "endpoint_unreachable" {
		t.Errorf("the owner is %+v", o)
	}
	if c := s.explain("any", "Astronomy").at(t, engine); c.Host != 0 {
		t.Errorf("what the dead agent held counts at %+v", c)
	}

	s.restartWorker(0, s.config.flagsOfEach[0]...)
	agent = s.workers[0]
	if again := s.ready(agent); again.Owner != first.Owner {
		t.Errorf("the owner was %s and is %s", first.Owner, again.Owner)
	}
	s.waitState(agent.address, "active")
	for _, c := range s.explain("any", "Astronomy").Candidates {
		if c.Device != 0 || c.Host != 0 {
			t.Errorf("what the dead agent held counts at %+v", c)
		}
	}
	s.seed(agent.address, "Botany")
	eventually(t, 10*time.Second, "what the new one holds is known", func() bool { return s.explain("any", "Botany").at(t, agent).Device > 20 })
}

// wantHeld wants a worker to count all blocks of the system prompt as in host
// memory, and none as in the engine's.
func (s *stack) wantHeld(w *simWorker, own, host int) {
	s.t.Helper()
	c := s.explain("any", "Astronomy").at(s.t, w)
	s.t.Logf("%d blocks in host memory count at %s, of %d; it won %d of 20", c.Host, w.address, host, s.wouldGo(20, "Astronomy", w))
	if c.Device != 0 || c.Host < own-1 || host != own {
		s.t.Errorf("%+v; want %d blocks in host memory alone", c, own)
	}
}

// wantNothingAt has new and old sessions served by others than a dead worker.
func (s *stack) wantNothingAt(w *simWorker) {
	s.t.Helper()
	if k := s.known(w); k.State == "active" {
		s.t.Errorf("the dead worker is %+v", k)
	}
	for i := range 20 {
		if at := s.ask(fmt.Sprint("dead-", i), "Geology", "Is anybody there?").header.Get("X-Sim-Worker"); at == w.address {
			s.t.Errorf("served by the dead worker")
		}
	}
}

// TestKVMisbehavingAgents shows what is decided about owners whose agents are
// late, or say what cannot be; and that they are used once they are well.
func TestKVMisbehavingAgents(t *testing.T) {
	t.Parallel()
	want := []struct{ fault, resolution, reason, mismatch string }{
		{"none", "ready", "", ""},
		{"late", "unknown", "endpoint_unreachable", ""},
		{"generation", "unknown", "status_mismatch", "status_generation"},
		{"identity", "unknown", "recovery_identity_mismatch", ""},
		{"behind", "unknown", "recovery_behind_barrier", ""},
	}
	var flags [][]string
	for _, w := range want {
		flags = append(flags, []string{"--agent-fault", w.fault})
	}
	s := newAgentStack(t, flags...)
	state := ""
	defer func() { t.Log(state) }()
	for i, want := range want {
		eventually(t, 10*time.Second, want.fault+" is "+want.resolution+" "+want.reason, func() bool {
			o := s.ownerOf(s.workers[i], 0)
			state = fmt.Sprintf("%+v", o)
			return o.Resolution == want.resolution && o.Reason == want.reason && (want.mismatch == "" || slices.Contains(o.Mismatches, want.mismatch))
		})
		t.Logf("%s: %s", want.fault, state)
		if k := s.known(s.workers[i]).KV; k.State != want.resolution || k.Reason != want.reason {
			t.Errorf("%s: the worker is %+v", want.fault, k)
		}
	}
	for i, w := range s.workers {
		w.tell("/v1/chat/completions", string(chatBody("Astronomy", "What is it?")))
		c := s.explain("any", "Astronomy").at(t, w)
		if i > 0 && (c.Device != 0 || c.Host != 0 || c.KV.State != want[i].resolution || c.KV.Reason != want[i].reason) {
			t.Errorf("%s: it counts %+v", want[i].fault, c)
		}
	}
	for _, w := range s.workers {
		w.tell("/debug/agent/fault?set=none", "")
	}
	for i, w := range s.workers {
		eventually(t, 15*time.Second, want[i].fault+" is well", func() bool {
			o := s.ownerOf(w, 0)
			state = fmt.Sprintf("%+v", o)
			return o.Resolution == "ready" && s.explain("any", "Astronomy").at(t, w).Device > 20
		})
	}
}
