package config

import (
	"slices"

	"mooring/internal/fleet"
)

// WorkerSpec is one entry of workers.static or of the workers file.
type WorkerSpec struct {
	Address      string         // "host:port", canonical: "10.0.0.7:8000", "[::1]:8000"; a DNS name stays a name
	Models       []string       // at least one; fleet.DefaultName where the file names none
	Adapters     []string       // further model names, of the first model's partition
	RoutingGroup string         // fleet.DefaultName where the file names none
	Ranks        uint32         // data-parallel ranks, at least 1
	ID           fleet.WorkerID // 0: derived, see WorkerID
	Drain        bool           // gets no new sessions and no next turns
	KVEvents     string         // "tcp://host:port" of rank 0's KV events; "": none
	KVReplay     string         // "tcp://host:port" of rank 0's replay; "": none
	BlockSize    int            // tokens per KV block; 0: learnt from its events

	Source string // "file:line" where it is listed, for messages; no part of what Equal compares
}

// WorkerID returns the configured id or, where there is none, the one derived
// from the canonical address, which is the same on every replica.
func (w *WorkerSpec) WorkerID() fleet.WorkerID {
	if w.ID != 0 {
		return w.ID
	}
	return fleet.DeriveWorkerID(w.Address)
}

// Equal reports whether both say the same of the same worker, wherever they are
// listed.
func (w WorkerSpec) Equal(v WorkerSpec) bool {
	return w.Address == v.Address && w.RoutingGroup == v.RoutingGroup && w.Ranks == v.Ranks && w.ID == v.ID &&
		w.Drain == v.Drain && w.KVEvents == v.KVEvents && w.KVReplay == v.KVReplay && w.BlockSize == v.BlockSize &&
		slices.Equal(w.Models, v.Models) && slices.Equal(w.Adapters, v.Adapters)
}
