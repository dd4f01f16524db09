package admin

import (
	"net/http"
	"time"

	"mooring/internal/fleet"
)

// workerJSON is one element of /v1/workers.
type workerJSON struct {
	WorkerID fleet.WorkerID `json:"worker_id,string"`
	Address  string         `json:"address"` // what Envoy is told
	Name     string         `json:"name"`    // as configured; may be a DNS name
	Models   []string       `json:"models"`
	Adapters []string       `json:"adapters"`
	Group    string         `json:"group"`
	Ranks    uint32         `json:"ranks"`
	State    string         `json:"state"`
	Since    time.Time      `json:"since"`            // when it entered its state
	Doubted  bool           `json:"doubted,omitzero"` // its source lists it no more, which is not believed yet
	Sessions int            `json:"sessions"`         // bound to it or to a rank of it
	Live     int            `json:"live"`             // requests of this replica that run on it now
	Blocks   int            `json:"blocks"`           // KV blocks known to be in its cache
	KV       KV             `json:"kv"`               // of its first rank that is not ready
}

func (s *server) getWorkers(w http.ResponseWriter, _ *http.Request) error {
	sessions := s.cfg.Sessions.BindingsByWorker()
	all := s.cfg.Fleet.View().Workers()
	out := struct {
		Workers []workerJSON `json:"workers"`
	}{make([]workerJSON, len(all))}
	for i, worker := range all {
		kv := s.kv(worker)
		out.Workers[i] = workerJSON{
			WorkerID: worker.ID, Address: worker.Address, Name: worker.Name, Models: worker.Models, Adapters: worker.Adapters,
			Group: worker.Group, Ranks: worker.Ranks, State: worker.State.String(), Since: worker.Since.UTC(), Doubted: worker.Doubted,
			Sessions: sessions[worker.ID], Live: s.live(worker), Blocks: kv.Blocks, KV: kv,
		}
	}
	return answer(w, http.StatusOK, out)
}

// live returns this replica's live requests on a worker, over all its ranks and
// those that were sent to it without a rank.
func (s *server) live(worker *fleet.Worker) int {
	n := s.cfg.Router.Live(fleet.WorkerOnly(worker.ID))
	for rank := range worker.Ranks {
		n += s.cfg.Router.Live(fleet.OnRank(worker.ID, rank))
	}
	return n
}
