package replication_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
)

// TestReplicasConverge runs random operations over a bad network, and then asks
// for equality. MOORING_LONG=1 runs 1,000 seeds of 10,000 operations;
// a larger number as many seeds of 300.
func TestReplicasConverge(t *testing.T) {
	seeds, ops := uint64(36), 300
	if n, err := strconv.ParseUint(os.Getenv("MOORING_LONG"), 10, 32); err == nil && n > 1 {
		seeds = n
	} else if os.Getenv("MOORING_LONG") != "" {
		seeds, ops = 1000, 10_000
	}
	for seed := range seeds {
		if err := simulate(t, seed, ops, ""); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if seed%100 == 99 {
			t.Logf("%d seeds of %d operations", seed+1, ops)
		}
	}
}

// TestEachRuleIsNeeded reverts rules: the simulation must find the failure.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, rule := range []string{"liveness gates the merge", "skip own writer", "no digests", "no skew limit"} {
		t.Run(rule, func(t *testing.T) {
			for seed := range uint64(36) {
				if err := simulate(t, seed, 300, rule); err != nil {
					t.Logf("seed %d: %s", seed, firstLine(err))
					return
				}
			}
			t.Error("no seed fails without the rule")
		})
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// simulate runs one seed and returns what went wrong, with its script.
func simulate(t *testing.T, seed uint64, ops int, ablate string) (err error) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, seed, ablate)
		for range ops {
			if err = s.step(); err != nil {
				break
			}
		}
		if err == nil {
			err = s.settle()
		}
		if err != nil && len(s.script) < 2000 {
			err = fmt.Errorf("%w\nscript:\n%s", err, strings.Join(s.script, "\n"))
		}
	})
	return err
}

type simulation struct {
	*cluster
	rng    *rand.Rand
	script []string
}

func newSimulation(t *testing.T, seed uint64, ablate string) *simulation {
	rng := rand.New(rand.NewPCG(seed, 3))
	ttl := 30 * time.Minute
	if seed%2 == 1 {
		ttl = 30 * time.Second
	}
	s := &simulation{cluster: newCluster(t, seed, 3+rng.IntN(5), ttl, ablate), rng: rng}
	s.net.Loss, s.net.Duplicate, s.net.MaxDelay = rng.Float64()/2, rng.Float64()/3, time.Duration(2+rng.IntN(300))*time.Millisecond
	for _, r := range s.replicas {
		r.skew = time.Duration(rng.IntN(1200)-600) * time.Second
	}
	return s
}

func (s *simulation) note(format string, args ...any) {
	s.script = append(s.script, fmt.Sprintf(format, args...))
}

func (s *simulation) step() error {
	i := s.rng.IntN(len(s.replicas))
	r := s.replicas[i]
	session := fmt.Sprint("s", s.rng.IntN(25))
	switch op := s.rng.IntN(100); {
	case op < 40 && !r.down:
		worker := fleet.WorkerID(1 + s.rng.IntN(r.workers))
		s.note("open %d %s %d", i, session, worker)
		l, err := s.open(r, session, worker)
		if err != nil && strings.Contains(err.Error(), "cannot be scheduled") {
			return err
		}
		if l != nil {
			r.leases = append(r.leases, l)
		}
	case op < 70 && len(r.leases) > 0:
		s.note("release %d", i)
		k := s.rng.IntN(len(r.leases))
		r.leases[k].Release(affinity.Outcome(s.rng.IntN(4)))
		r.leases = append(r.leases[:k], r.leases[k+1:]...)
	case op < 74 && !r.down:
		s.note("unpin %d %s", i, session)
		r.table().Unpin(session)
	case op < 77:
		j := s.rng.IntN(len(s.replicas))
		s.note("cut %d %d", i, j)
		s.net.Cut(i, j)
	case op < 78:
		s.note("heal")
		s.net.Heal()
	case op < 79:
		if s.rng.IntN(2) == 0 {
			r.writer += 100
		}
		s.note("restart %d writer %d", i, r.writer)
		r.down = false
		s.start(r)
	case op < 80:
		s.note("down %d %v", i, !r.down)
		r.down = !r.down
	case op < 83:
		r.workers = 1 + s.rng.IntN(6)
		s.note("workers %d %d", i, r.workers)
		r.live.Publish(viewOf(r.workers))
	case op < 86:
		s.poison(session)
	case op < 90:
		s.plainPeer(session)
	default:
		d := time.Duration(s.rng.IntN(1500)) * time.Millisecond
		s.note("run %v", d)
		s.run(d)
	}
	return s.check()
}

// toAll sends a message that is from none of the replicas.
func (s *simulation) toAll(m replication.Message) {
	s.net.Send(time.Now(), -1, len(s.replicas), []replication.Message{m})
}

func (s *simulation) event(session string, worker, sequence, writer uint64) replication.BindingEvent {
	return replication.BindingEvent{ModelName: part.Model, RoutingGroup: part.Group, SessionID: session, WorkerID: worker, Sequence: sequence, WriterID: writer}
}

func (s *simulation) poison(session string) {
	sequence := []uint64{math.MaxUint64, 1 << 63, uint64(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())}[s.rng.IntN(3)]
	s.note("poison %s %d", session, sequence)
	e := s.event(session, 1, sequence, 77)
	if s.rng.IntN(2) == 0 {
		e.SenderID, e.SenderSeq = 5, 1
	}
	s.toAll(replication.Message{Topic: replication.TopicV2, Payload: replication.AppendEvent(nil, &e)})
	s.toAll(replication.Message{Topic: replication.TopicV2, Payload: []byte{0xdd, 0xff, 0xff, 0xff, 0xff}})
}

// plainPeer binds, or refreshes what a replica holds, without our keys.
func (s *simulation) plainPeer(session string) {
	for _, r := range s.replicas {
		if ev, ok := r.table().Current(session); ok && !r.down {
			s.note("plain refresh %s", session)
			e := s.event(session, uint64(ev.Target.Worker), ev.Sequence, ev.WriterID)
			if ev.Target.Ranked {
				e.DPRank = &ev.Target.Rank
			}
			s.toAll(replication.Message{Topic: replication.TopicV1, Payload: replication.AppendEvent(nil, &e)})
			return
		}
	}
	s.note("plain bind %s", session)
	e := s.event(session, uint64(1+s.rng.IntN(6)), uint64(time.Now().UnixNano()), 88)
	s.toAll(replication.Message{Topic: replication.TopicV1, Payload: replication.AppendEvent(nil, &e)})
}

// settle heals everything, lets two digest periods and 2.5 s pass, and compares.
func (s *simulation) settle() error {
	s.note("settle")
	s.net.Heal()
	s.net.Loss, s.net.Duplicate, s.net.MaxDelay = 0, 0, 2*time.Millisecond
	for _, r := range s.replicas {
		r.down = false
	}
	s.run(12500 * time.Millisecond)
	if err := s.check(); err != nil {
		return err
	}
	if err := s.converged(); err != nil {
		return err
	}
	wants := s.wants()
	s.run(time.Minute)
	if n, pairs := s.wants()-wants, len(s.replicas)*(len(s.replicas)-1); n > 10*pairs {
		return fmt.Errorf("%d wants in a calm minute of %d pairs", n, pairs)
	}
	return nil
}

func (s *simulation) wants() (n int) {
	for _, r := range s.replicas {
		n += r.core.Wants()
	}
	return n
}

// TestSuppressedRefreshIsSentLater uses a session again within the interval: the
// peer must keep it for as long as the user does, which without the trailing edge
// it does not.
func TestSuppressedRefreshIsSentLater(t *testing.T) {
	for rule, lacking := range map[string]int{"": 0, "leading-edge refresh": 1} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1, 2, 80*time.Second, rule)
			c.run(time.Second)
			for range 2 {
				l, err := c.open(c.replicas[0], "s", 1)
				if err != nil {
					t.Fatal(err)
				}
				l.Release(affinity.Completed)
				c.run(5 * time.Second)
			}
			c.run(75*time.Second + 100*time.Millisecond - 5*time.Second)
			if got := len(c.differing()); got != lacking {
				t.Errorf("rule %q reverted: %d records differ, want %d", rule, got, lacking)
			}
		})
	}
}
