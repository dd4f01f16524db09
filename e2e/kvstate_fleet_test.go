package e2e

import (
	"slices"
	"testing"
	"time"
)

// TestKVStateFollowsTheFleet has a worker drain, takes it out of the workers file,
// and puts it in again.
func TestKVStateFollowsTheFleet(t *testing.T) {
	t.Parallel()
	drains := ""
	s := newKVStack(t, stackConfig{
		models: []string{"sim", "sim"}, workerFlags: kvSockets(),
		workerKeys: func(w *simWorker) string {
			if w.address == drains {
				return kvKeys(w) + ", drain: true"
			}
			return kvKeys(w)
		},
	})
	holder := s.workers[0]
	s.seed(holder.address, "Astronomy")
	s.inStep(holder)
	id := s.known(holder).ID
	attached := func() bool {
		return slices.ContainsFunc(s.owners(), func(o kvOwner) bool { return o.WorkerID == id && o.Resolution == "ready" })
	}

	// Out of the file: remembered, but of no use.
	all := s.workers
	s.workers = all[1:]
	s.writeWorkers()
	eventually(t, 10*time.Second, "it is not projected", func() bool { return !attached() })
	if e := s.explain("any", "Astronomy"); len(e.Candidates) != 1 || e.Address != all[1].address {
		t.Errorf("while its worker is away: %+v", e)
	}

	// Back again, and what it holds with it.
	s.workers = all
	s.writeWorkers()
	s.waitState(holder.address, "active")
	s.inStep(holder)
	eventually(t, 10*time.Second, "it wins", func() bool { return s.wouldGo(5, "Astronomy", holder) == 5 })

	// It drains: others take what is new, but nothing is forgotten.
	drains = holder.address
	s.writeWorkers()
	s.waitState(holder.address, "draining")
	if !attached() {
		t.Errorf("the draining worker's owner: %+v", s.owners())
	}
	if e := s.explain("any", "Astronomy"); len(e.Candidates) != 1 || e.Address != s.workers[1].address {
		t.Errorf("while it drains: %+v", e)
	}
	drains = ""
	s.writeWorkers()
	s.waitState(holder.address, "active")
	if n := s.wouldGo(5, "Astronomy", holder); n != 5 {
		t.Errorf("%d of 5 would go to the holder when it drains no more", n)
	}
}
