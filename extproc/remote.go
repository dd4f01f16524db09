package extproc

import "mooring/affinity"

// RemoteEnd is the end of a request that one replica picked and another heard of:
// where several gateways share several replicas, a gateway's access log goes to
// one of them only.
type RemoteEnd struct {
	Replica       uint64 // who picked: its Config.ReplicaID
	Lease         uint64 // the number of the pick
	Outcome       affinity.Outcome
	Served        string // the address that served it; "" if not known
	ConnectFailed bool   // the worker could not be connected to
}

// passOn hands an end to whoever picked, and says what became of the entry.
func (a accessLog) passOn(e RemoteEnd) string {
	if a.cfg.Elsewhere == nil || !a.cfg.Elsewhere(e) {
		return entryOtherReplica
	}
	return entryPassedOn
}

// EndFromElsewhere ends a request of this replica's whose end another replica
// heard of. One that is not known here, or has ended, is nothing.
func (s *Server) EndFromElsewhere(r RemoteEnd) {
	if r.Replica != s.cfg.ReplicaID {
		return
	}
	s.reports.passed()
	if e, ok := s.ledger.endServed(r.Lease, r.Outcome, r.Served, byReplica); ok {
		s.compare(e, r.Outcome, r.Served, r.ConnectFailed)
		s.nudge()
	}
}
