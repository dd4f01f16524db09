package replication_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
	"mooring/replication/replicationtest"
)

var part = fleet.Partition{Model: "m", Group: fleet.DefaultName}

// cluster is some replicas and the network between them, in a synctest bubble:
// its one goroutine moves the time.
type cluster struct {
	tb       testing.TB
	net      replicationtest.Network
	replicas []*replica
	ttl      time.Duration
	max      int
	ablate   string
	starts   uint64
}

type replica struct {
	live     *fleet.Live
	sessions *affinity.Resolver
	core     *replication.Core
	writer   uint64
	sender   uint64
	skew     time.Duration
	workers  int
	down     bool
	leases   []*affinity.Lease
	seen     map[replication.Disposition]int
}

func newCluster(tb testing.TB, seed uint64, n int, ttl time.Duration, ablate string) *cluster {
	c := &cluster{tb: tb, ttl: ttl, ablate: ablate, max: 10_000}
	c.net.Rand = rand.New(rand.NewPCG(seed, 7))
	c.net.MinDelay, c.net.MaxDelay = time.Millisecond, 2*time.Millisecond
	for i := range n {
		r := &replica{writer: uint64(i + 1), workers: 3}
		c.replicas = append(c.replicas, r)
		c.start(r)
	}
	return c
}

func viewOf(workers int) *fleet.View {
	list := make([]fleet.Worker, workers)
	for i := range list {
		list[i] = fleet.Worker{ID: fleet.WorkerID(i + 1), Address: fmt.Sprintf("10.0.0.%d:80", i+1), Models: []string{part.Model}, Group: part.Group, Ranks: 1, State: fleet.Active}
	}
	return fleet.NewView(list)
}

// start starts or restarts a replica with nothing in memory and a fresh sender id.
func (c *cluster) start(r *replica) {
	c.starts++
	r.live, r.sender, r.leases, r.seen = fleet.NewLive(viewOf(r.workers)), 1000+c.starts, nil, make(map[replication.Disposition]int)
	wall := func() time.Time { return time.Now().Add(r.skew) }
	var core *replication.Core
	sessions, err := affinity.NewResolver(r.live, affinity.Config{
		TTL: c.ttl, MaxSessions: c.max, WriterID: r.writer, WallNow: wall, WaitFor: time.Millisecond, Grace: time.Millisecond,
		Publish: func(p fleet.Partition, ev affinity.Event) {
			core.Local(p, ev)
		},
	})
	if err != nil {
		c.tb.Fatal(err)
	}
	cfg := replication.Config{Sessions: sessions, SenderID: r.sender, WriterID: r.writer, WallNow: wall, PublishV1: c.starts%2 == 0}
	cfg.Ablate(c.ablate)
	if core, err = replication.New(time.Now(), cfg); err != nil {
		c.tb.Fatal(err)
	}
	r.core, r.sessions = core, sessions
}

func less(a, b [2]uint64) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }

func (r *replica) table() *affinity.Table {
	t, _ := r.sessions.Table(part)
	return t
}

// run lets d pass in small steps.
func (c *cluster) run(d time.Duration) {
	const step = 20 * time.Millisecond
	for end := time.Now().Add(d); ; time.Sleep(min(step, time.Until(end))) {
		now := time.Now()
		for i, r := range c.replicas {
			if !r.down {
				r.core.Tick(now)
				c.net.Send(now, i, len(c.replicas), r.core.Flush(now))
			}
		}
		c.net.Deliver(now, func(to int, m replication.Message) {
			if r := c.replicas[to]; !r.down {
				r.seen[r.core.Receive(now, m)]++
			}
		})
		if !now.Before(end) {
			return
		}
	}
}

// open acquires the session and binds it, if it is not, to the given worker.
func (c *cluster) open(r *replica, session string, worker fleet.WorkerID) (*affinity.Lease, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	l, err := r.table().Acquire(ctx, session, fleet.Target{})
	if err != nil {
		return nil, err
	}
	if _, bound := l.Target(); !bound {
		if err := l.Bind(fleet.OnRank(worker, 0)); err != nil {
			return nil, err
		}
	}
	target, _ := l.Target()
	if !r.live.View().IsSchedulable(part, target) {
		return nil, fmt.Errorf("session %s got %v, which cannot be scheduled", session, target)
	}
	return &l, nil
}

// records returns all that a replica holds, by sum.
func (r *replica) records() map[uint64]affinity.Record {
	recs := make(map[uint64]affinity.Record)
	var refs []affinity.Ref
	for b := range affinity.Buckets {
		refs = r.table().Refs(refs, uint8(b))
	}
	for _, ref := range refs {
		if rec, ok := r.table().Record(ref); ok {
			recs[rec.Sum] = rec
		}
	}
	return recs
}

// lack is a record that a replica does not hold while another does.
type lack struct {
	sum     uint64
	replica int
}

// differing returns the records that only some of the replicas hold, by who
// lacks them.
func (c *cluster) differing() map[lack]affinity.Record {
	all, held := make(map[uint64]affinity.Record), make([]map[uint64]affinity.Record, len(c.replicas))
	for i, r := range c.replicas {
		if !r.down {
			held[i] = r.records()
			maps.Copy(all, held[i])
		}
	}
	lacks := make(map[lack]affinity.Record)
	for i, r := range c.replicas {
		for sum, rec := range all {
			if _, ok := held[i][sum]; !ok && !r.down {
				lacks[lack{sum, i}] = rec
			}
		}
	}
	return lacks
}

// check returns what must never be.
func (c *cluster) check() error {
	for i, r := range c.replicas {
		recs := r.records()
		floors := make(map[string][2]uint64)
		for _, rec := range recs {
			if rec.Kind == affinity.EventUnpinned {
				floors[rec.Session] = [2]uint64{rec.Sequence, rec.WriterID}
			}
		}
		for _, rec := range recs {
			switch v := [2]uint64{rec.Sequence, rec.WriterID}; {
			case rec.Kind != affinity.EventUnpinned && !less(floors[rec.Session], v):
				return fmt.Errorf("replica %d: unpinned session %s is back", i, rec.Session)
			case rec.Sequence > uint64(time.Now().Add(r.skew+time.Hour).UnixNano()):
				return fmt.Errorf("replica %d holds poison: %+v", i, rec)
			case rec.Life > max(24*time.Hour, c.ttl) || rec.Life <= 0:
				return fmt.Errorf("replica %d holds a record with a life of %v", i, rec.Life)
			}
		}
	}
	return nil
}

// converged returns an error unless all replicas that are up agree.
func (c *cluster) converged() error {
	lacks := c.differing()
	if len(lacks) > 0 && c.ttl <= time.Minute {
		// What expires at one replica before another is repaired at the next
		// digest, or ends everywhere: to lack it for longer is a failure.
		for range 8 {
			c.run(time.Second)
			now := c.differing()
			maps.DeleteFunc(lacks, func(l lack, _ affinity.Record) bool { _, still := now[l]; return !still })
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	var b strings.Builder
	for l, rec := range lacks {
		fmt.Fprintf(&b, "\n  replica %d lacks %v %q %v %d/%d life %v", l.replica, rec.Kind, rec.Session, rec.Target, rec.Sequence, rec.WriterID, rec.Life)
	}
	return fmt.Errorf("replicas differ in %d records:%s", len(lacks), b.String())
}
