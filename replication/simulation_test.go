package replication_test

import (
	"errors"
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
// a larger number as many seeds of 300. MOORING_SEED=n runs that seed alone.
func TestReplicasConverge(t *testing.T) {
	first, seeds, ops := uint64(0), uint64(8), 300
	if n, err := strconv.ParseUint(os.Getenv("MOORING_LONG"), 10, 32); err == nil && n > 1 {
		seeds = n
	} else if os.Getenv("MOORING_LONG") != "" {
		seeds, ops = 1000, 10_000
	}
	if n, err := strconv.ParseUint(os.Getenv("MOORING_SEED"), 10, 64); err == nil {
		first, seeds = n, 1
	}
	for seed := first; seed < first+seeds; seed++ {
		if err := simulate(t, seed, ops, ""); err != nil {
			t.Fatalf("seed %d of %d operations: %v", seed, ops, err)
		}
		if seed%25 == 24 {
			t.Logf("%d seeds of %d operations", seed-first+1, ops)
		}
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
			if err = s.step(); err == nil {
				err = s.oracle.check()
			}
			if err != nil {
				break
			}
		}
		if err == nil {
			err = s.settle()
		}
		if err != nil {
			err = fmt.Errorf("%w\nscript:\n%s", err, strings.Join(s.script, "\n"))
		}
	})
	return err
}

// TestSimulationRepeats runs a seed twice: a seed that fails would not help if the
// next run of it were another.
func TestSimulationRepeats(t *testing.T) {
	var sent [2]int
	for i := range sent {
		synctest.Test(t, func(t *testing.T) {
			s := newSimulation(t, 10, "")
			for range 300 {
				if err := s.step(); err != nil {
					t.Fatal(err)
				}
			}
			sent[i] = s.net.Sent()
		})
	}
	if sent[0] != sent[1] {
		t.Errorf("%d messages, and %d in the second run", sent[0], sent[1])
	}
}

type simulation struct {
	*cluster
	oracle *oracle
	rng    *rand.Rand
	fleet  int // workers that there are, which each replica's discovery sees later
	script []string
}

// newSimulation draws a cluster. Odd seeds have a short life of bindings, every
// fourth tables that are full at once, every third a plain peer; every fifth
// compares sub-buckets before it asks for anything. Two thirds have two or three
// partitions.
func newSimulation(t *testing.T, seed uint64, ablate string) *simulation {
	rng := rand.New(rand.NewPCG(seed, 3))
	su := setup{seed: seed, n: 3 + rng.IntN(5), ttl: 30 * time.Minute, ablate: ablate, narrow: seed%5 == 4, parts: 1 + int(seed/2%3)}
	if seed%2 == 1 {
		su.ttl = 30 * time.Second
	}
	if seed%4 == 3 {
		su.max = 8
	}
	s := &simulation{cluster: newCluster(t, su), rng: rng, fleet: 3}
	s.net.Loss, s.net.Duplicate, s.net.MaxDelay = rng.Float64()/2, rng.Float64()/3, time.Duration(2+rng.IntN(300))*time.Millisecond
	for _, r := range s.replicas {
		r.skew = time.Duration(rng.IntN(1200)-600) * time.Second
		r.lag = time.Duration(rng.IntN(5000)) * time.Millisecond
	}
	if seed%3 == 0 {
		s.plain = newPlainPeer(su.ttl, su.parts, time.Duration(rng.IntN(1200)-600)*time.Second)
	}
	s.oracle = newOracle(s.cluster)
	s.note("seed %d: %d replicas, %d partitions, ttl %v, max %d, loss %.2f, duplicates %.2f, delay to %v, plain peer %v", seed, su.n, su.parts, su.ttl, s.max, s.net.Loss, s.net.Duplicate, s.net.MaxDelay, s.plain != nil)
	for i, r := range s.replicas {
		s.note("replica %d: skew %v, lag %v", i, r.skew, r.lag)
	}
	return s
}

func (s *simulation) note(format string, args ...any) {
	s.script = append(s.script, fmt.Sprintf(format, args...))
}

// step does one operation. Its error is a violation.
func (s *simulation) step() error {
	i := s.rng.IntN(len(s.replicas))
	r := s.replicas[i]
	session := fmt.Sprint("s", s.rng.IntN(25))
	worker := fleet.WorkerID(1 + s.rng.IntN(max(r.workers, 1)))
	switch op := s.rng.IntN(100); {
	case op < 50 && r.down, op >= 50 && op < 70 && len(r.leases) == 0:
	case op < 30:
		s.note("open %d %s %d", i, session, worker)
		h, err := s.open(r, session, worker)
		return s.keep(r, h, err)
	case op < 44:
		s.note("choose %d %s", i, session)
		h, err := s.acquire(r, session)
		return s.keep(r, h, err)
	case op < 47:
		s.note("unpin %d %s", i, session)
		r.tableOf(session).Unpin(session)
		s.oracle.unpinned(r, session)
	case op < 50:
		s.note("pin %d %s %d", i, session, worker)
		if _, err := r.tableOf(session).Pin(session, fleet.OnRank(worker, 0)); err == nil {
			s.oracle.used(r, session)
		}
	case op < 70:
		return s.finish(i, r, worker)
	case op < 81:
		s.disturb(op, i, r)
	case op < 90:
		s.fromOutside(op, session)
	default:
		d := time.Duration(s.rng.IntN(1500)) * time.Millisecond
		s.note("run %v", d)
		s.run(d)
	}
	return nil
}

// keep keeps what a request holds, and returns a violation.
func (s *simulation) keep(r *replica, h *held, err error) error {
	switch {
	case errors.Is(err, errViolation):
		return err
	case err == nil:
		r.leases = append(r.leases, h)
	}
	return nil
}

// finish binds, if one of the replica's requests is choosing, or ends it.
func (s *simulation) finish(i int, r *replica, worker fleet.WorkerID) error {
	k := s.rng.IntN(len(r.leases))
	h := r.leases[k]
	if _, bound := h.Target(); !bound && s.rng.IntN(4) > 0 {
		s.note("bind %d %s %d", i, h.session, worker)
		if err := s.bind(r, h, worker); errors.Is(err, errViolation) {
			return err
		}
		s.oracle.used(r, h.session)
		return nil
	}
	o := affinity.Outcome(s.rng.IntN(4))
	s.note("release %d %s %v", i, h.session, o)
	s.oracle.used(r, h.session)
	h.Release(o)
	s.oracle.unpinned(r, h.session)
	r.leases = append(r.leases[:k], r.leases[k+1:]...)
	return nil
}

// disturb does something to the network, a replica or the fleet.
func (s *simulation) disturb(op, i int, r *replica) {
	switch {
	case op < 73:
		j := s.rng.IntN(s.nodes())
		s.note("cut %d %d", i, j)
		s.net.Cut(i, j)
	case op < 74:
		s.note("heal")
		s.net.Heal()
	case op < 75:
		if s.rng.IntN(2) == 0 {
			r.writer += 100
		}
		s.note("restart %d writer %d", i, r.writer)
		r.down = false
		s.start(r)
		s.oracle.restarted(i)
	case op < 76:
		s.note("down %d %v", i, !r.down)
		r.down = !r.down
	case op < 79:
		s.fleet = 1 + s.rng.IntN(6)
		s.note("fleet %d", s.fleet)
		for _, r := range s.replicas {
			r.later = append(r.later, sighting{time.Now().Add(r.lag), s.fleet})
		}
	default:
		r.see(1 + s.rng.IntN(6))
		s.note("workers %d %d", i, r.workers)
	}
}

// fromOutside does what peers do that are no replicas.
func (s *simulation) fromOutside(op int, session string) {
	worker := uint64(1 + s.rng.IntN(6))
	switch {
	case op < 83:
		s.poison(session)
	case op < 84:
		s.note("ahead %s", disputed)
		e := s.plainEvent(disputed, worker, uint64(time.Now().Add(65*time.Minute).UnixNano()), 77)
		e.SenderID, e.SenderSeq = 6, 1
		s.toAll(e)
	case op < 85:
		s.note("tie %s", session)
		sequence := uint64(time.Now().UnixNano())
		for j := range s.replicas {
			e := s.plainEvent(session, worker+uint64(j%2), sequence, 99)
			s.net.Fly(time.Now(), j, replication.Message{Topic: replication.TopicV2, Payload: replication.AppendEvent(nil, &e)})
		}
	case op < 87 && s.plain != nil:
		s.note("plain commit %s %d", session, worker)
		s.plain.commit(session, worker)
	case op < 89 && s.plain != nil:
		s.note("plain release")
		s.plain.release()
	default:
		s.plainRefresh(session)
	}
}

// plainEvent is one of a plain peer, in the partition of its session.
func (s *simulation) plainEvent(session string, worker, sequence, writer uint64) replication.BindingEvent {
	e := plainEvent(session, worker, sequence, writer)
	e.ModelName = partOf(session, s.parts).Model
	return e
}

// toAll sends an event that is from none of the replicas.
func (s *simulation) toAll(e replication.BindingEvent) {
	m := replication.Message{Topic: replication.TopicV2, Payload: replication.AppendEvent(nil, &e)}
	s.net.Send(time.Now(), -1, len(s.replicas), []replication.Message{m})
}

func (s *simulation) poison(session string) {
	sequence := []uint64{math.MaxUint64, 1 << 63, uint64(time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC).Unix()) * 1e9}[s.rng.IntN(3)]
	s.note("poison %s %d", session, sequence)
	e := s.plainEvent(session, 1, sequence, 77)
	if s.rng.IntN(2) == 0 {
		e.SenderID, e.SenderSeq = 5, 1
	}
	s.toAll(e)
}

// plainRefresh tells what a replica holds once more, without our keys.
func (s *simulation) plainRefresh(session string) {
	for _, r := range s.replicas {
		if ev, ok := r.tableOf(session).Current(session); ok && !r.down {
			s.note("plain refresh %s", session)
			s.toAll(s.plainEvent(session, uint64(ev.Target.Worker), ev.Sequence, ev.WriterID))
			return
		}
	}
}
