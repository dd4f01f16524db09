package admin

import (
	"net/http"
	"strconv"
	"time"
)

// Peer is what is known of one configured peer.
type Peer struct {
	Endpoint       string
	ReplicaID      uint64 // of who was heard there last; 0: nobody yet
	Connected      bool
	Heard          bool          // whether LastHeard is set
	LastHeard      time.Duration // ago
	Holes          uint64        // messages of it that never came
	Differing      int           // sessions that differed at its last digests, estimated
	ConvergedSince time.Time     // zero: it differs, has not told, or is not heard
}

// peerJSON is one element of /v1/peers.
type peerJSON struct {
	Endpoint       string     `json:"endpoint"`
	ReplicaID      *string    `json:"replica_id"`
	Connected      bool       `json:"connected"`
	LastHeard      *int64     `json:"last_heard_ms"`
	Holes          uint64     `json:"holes"`
	Differing      int        `json:"differing"`
	ConvergedSince *time.Time `json:"converged_since"`
}

// maxExact is the largest count that a JavaScript number holds.
const maxExact = 1<<53 - 1

func (s *server) getPeers(w http.ResponseWriter, _ *http.Request) error {
	out := struct {
		ReplicaID uint64     `json:"replica_id,string"`
		Peers     []peerJSON `json:"peers"`
	}{s.cfg.ReplicaID, []peerJSON{}}
	if s.cfg.Peers != nil {
		for _, p := range s.cfg.Peers() {
			out.Peers = append(out.Peers, p.json())
		}
	}
	return answer(w, http.StatusOK, out)
}

func (p *Peer) json() peerJSON {
	out := peerJSON{Endpoint: p.Endpoint, Connected: p.Connected, Holes: min(p.Holes, maxExact), Differing: p.Differing}
	if p.ReplicaID != 0 {
		id := strconv.FormatUint(p.ReplicaID, 10)
		out.ReplicaID = &id
	}
	if p.Heard {
		ms := p.LastHeard.Milliseconds()
		out.LastHeard = &ms
	}
	if !p.ConvergedSince.IsZero() {
		since := p.ConvergedSince.UTC()
		out.ConvergedSince = &since
	}
	return out
}
