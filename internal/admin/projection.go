package admin

import (
	"net/http"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/reconcile"
)

// KV is how the KV state of one rank of a worker stands.
type KV struct {
	State  string `json:"state"`  // ready, unknown, unavailable, error, or none where nothing is published
	Reason string `json:"reason"` // why it is not ready; "" if it is, or none
	Blocks int    `json:"-"`      // known to be in its cache
}

func (s *server) getProjection(w http.ResponseWriter, _ *http.Request) error {
	out := struct {
		Owners []reconcile.OwnerReport `json:"owners"`
	}{[]reconcile.OwnerReport{}}
	if s.cfg.Owners != nil {
		out.Owners = append(out.Owners, s.cfg.Owners()...)
	}
	return answer(w, http.StatusOK, out)
}

// kvOf returns the KV state of one rank of a worker.
func (s *server) kvOf(t fleet.Target) KV {
	if s.cfg.KV == nil {
		return KV{State: "none"}
	}
	return s.cfg.KV(kvstate.Worker{WorkerID: uint64(t.Worker), DPRank: t.Rank})
}

// kv returns the KV state of a worker: that of its first rank that is not ready,
// and the blocks of all ranks.
func (s *server) kv(worker *fleet.Worker) KV {
	var whole KV
	for rank := range worker.Ranks {
		of := s.kvOf(fleet.OnRank(worker.ID, rank))
		if rank == 0 || whole.State == kvstate.Ready.String() {
			whole.State, whole.Reason = of.State, of.Reason
		}
		whole.Blocks += of.Blocks
	}
	return whole
}
