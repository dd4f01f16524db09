package replication_test

import (
	"fmt"
	"time"

	"mooring/affinity"
	"mooring/replication"
)

// settle heals everything, lets two digest periods and 2.5 s pass, and compares.
func (s *simulation) settle() error {
	s.note("settle")
	s.net.Heal()
	s.net.Loss, s.net.Duplicate, s.net.MaxDelay = 0, 0, 2*time.Millisecond
	for _, r := range s.replicas {
		r.down = false
	}
	if s.oracle.crowded() {
		return s.settleCrowded()
	}
	if err := s.settled(); err != nil {
		return err
	}
	return s.calm()
}

func (s *simulation) settled() error {
	s.run(12500 * time.Millisecond)
	if err := s.oracle.check(); err != nil {
		return err
	}
	return s.oracle.converged()
}

// settleCrowded is settle for tables that cannot hold all: equality is promised
// as soon as they can again.
func (s *simulation) settleCrowded() error {
	s.run(12500 * time.Millisecond)
	if err := s.calm(); err != nil {
		return err
	}
	for _, r := range s.replicas {
		for _, l := range r.leases {
			l.Release(affinity.Completed)
		}
		r.leases = nil
	}
	s.run(s.ttl + 2*lifeSlack)
	for i, r := range s.replicas {
		h, err := s.open(r, fmt.Sprint("fresh", i), 1)
		if err != nil {
			return violation("replica %d is still full: %v", i, err)
		}
		h.Release(affinity.Completed)
		s.oracle.used(r, h.session)
	}
	return s.settled()
}

// calm counts the wants of each pair of replicas in a minute in which nothing
// happens.
func (s *simulation) calm() error {
	wants := make(map[[2]uint64]int)
	s.sent = func(_ int, m replication.Message) {
		if m.Topic != replication.TopicSync {
			return
		}
		if w, err := replication.DecodeSync(m.Payload); err == nil && w.Type == replication.Want {
			wants[[2]uint64{w.SenderID, w.To}]++
		}
	}
	s.run(time.Minute)
	s.sent = nil
	for pair, n := range wants {
		if n > 10 {
			return violation("%d wants of %d to %d in a calm minute", n, pair[0], pair[1])
		}
	}
	return s.oracle.check()
}
