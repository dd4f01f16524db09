package replication_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
	"mooring/replication/replicationtest"
)

var part = fleet.Partition{Model: "m", Group: fleet.DefaultName}

// setup says what a cluster is made of.
type setup struct {
	seed   uint64
	n      int // replicas
	ttl    time.Duration
	max    int           // sessions; 0: 10,000
	parts  int           // partitions, which share the sessions: see partOf; 0: one
	digest time.Duration // between digests; 0: the default
	sync   time.Duration // the sync timeout; 0: the default
	narrow bool          // every bucket counts as large
	ablate string        // the rule that is not obeyed; see replication.Ablate and affinityRules
}

// affinityRules are the rules that package affinity can revert.
var affinityRules = map[string]affinity.Rule{
	"floors yield": affinity.FloorsStay, "floors are renewed": affinity.FloorsAge, "kept loses": affinity.KeptWins,
	"clock follows": affinity.ClockLead, "target unordered": affinity.TargetOrders,
}

// cluster is some replicas and the network between them, in a synctest bubble:
// its one goroutine moves the time.
type cluster struct {
	setup
	tb       testing.TB
	net      replicationtest.Network
	replicas []*replica
	plain    *plainPeer // a peer that is no replica, after the replicas in the network; nil: none
	starts   uint64

	before func()                                // called before each step; nil: nobody listens
	sent   func(from int, m replication.Message) // told of each message of a replica; nil: nobody listens
	got    func(to int, m replication.Message)   // told of each message that reaches one, before it
}

type replica struct {
	parts    int
	live     *fleet.Live
	sessions *affinity.Resolver
	core     *replication.Core
	writer   uint64
	sender   uint64
	skew     time.Duration
	lag      time.Duration // of its discovery
	later    []sighting    // what its discovery is going to see
	workers  int
	down     bool
	leases   []*held
	seen     map[replication.Disposition]int
}

// sighting is how many workers a replica's discovery sees from a moment on.
type sighting struct {
	at      time.Time
	workers int
}

// held is a lease on a session, or a turn to choose, with what was known of the
// session when the turn began.
type held struct {
	*affinity.Lease
	session string
	known   version
}

type version [2]uint64 // sequence, writer

func (v version) above(w version) bool { return v[0] > w[0] || v[0] == w[0] && v[1] > w[1] }

func versionOf(ev affinity.Event) version { return version{ev.Sequence, ev.WriterID} }

func newCluster(tb testing.TB, s setup) *cluster {
	c := &cluster{setup: s, tb: tb}
	if c.max == 0 {
		c.max = 10_000
	}
	c.net.Rand = rand.New(rand.NewPCG(s.seed, 7))
	c.net.MinDelay, c.net.MaxDelay = time.Millisecond, 2*time.Millisecond
	for i := range s.n {
		r := &replica{parts: max(s.parts, 1), writer: uint64(i + 1), workers: 3}
		c.replicas = append(c.replicas, r)
		c.start(r)
	}
	return c
}

// partNumber returns the partition of that number; part is number 0.
func partNumber(n int) fleet.Partition {
	if n == 0 {
		return part
	}
	return fleet.Partition{Model: fmt.Sprint(part.Model, n), Group: part.Group}
}

// partOf returns the partition that a session is in, if there are so many.
func partOf(session string, parts int) fleet.Partition {
	n := 0
	for _, b := range []byte(session) {
		n += int(b)
	}
	return partNumber(n % parts)
}

func viewOf(workers int) *fleet.View { return viewOfParts(workers, 1) }

// viewOfParts has workers that serve all partitions.
func viewOfParts(workers, parts int) *fleet.View {
	models := make([]string, parts)
	for i := range models {
		models[i] = partNumber(i).Model
	}
	list := make([]fleet.Worker, workers)
	for i := range list {
		list[i] = fleet.Worker{ID: fleet.WorkerID(i + 1), Address: fmt.Sprintf("10.0.0.%d:80", i+1), Models: models, Group: part.Group, Ranks: 1, State: fleet.Active}
	}
	return fleet.NewView(list)
}

// start starts or restarts a replica with nothing in memory and a fresh sender id.
func (c *cluster) start(r *replica) {
	c.starts++
	r.live, r.sender, r.leases, r.seen = fleet.NewLive(viewOfParts(r.workers, r.parts)), 1000+c.starts, nil, make(map[replication.Disposition]int)
	wall := func() time.Time { return time.Now().Add(r.skew) }
	var core *replication.Core
	rule, inAffinity := affinityRules[c.ablate]
	sessions, err := affinity.NewResolver(r.live, affinity.Config{
		TTL: c.ttl, MaxSessions: c.max, WriterID: r.writer, WallNow: wall, WaitFor: time.Millisecond, Grace: time.Millisecond,
		Publish: func(p fleet.Partition, ev affinity.Event) {
			core.Local(p, ev)
		},
		TestingOnlyRevert: rule,
	})
	if err != nil {
		c.tb.Fatal(err)
	}
	cfg := replication.Config{Sessions: sessions, SenderID: r.sender, WriterID: r.writer, WallNow: wall, DigestEvery: c.digest, SyncTimeout: c.sync, PublishV1: c.starts%2 == 0}
	if !inAffinity {
		cfg.Ablate(c.ablate)
	}
	if c.narrow {
		cfg.NarrowAll()
	}
	if core, err = replication.New(time.Now(), cfg); err != nil {
		c.tb.Fatal(err)
	}
	r.core, r.sessions = core, sessions
}

func (r *replica) table() *affinity.Table {
	t, _ := r.sessions.Table(part)
	return t
}

// tableOf returns the table that the session is in.
func (r *replica) tableOf(session string) *affinity.Table {
	t, _ := r.sessions.Table(partOf(session, r.parts))
	return t
}

func (r *replica) see(workers int) {
	r.workers = workers
	r.live.Publish(viewOfParts(workers, r.parts))
}

// nodes is how many nodes the network has.
func (c *cluster) nodes() int {
	if c.plain != nil {
		return len(c.replicas) + 1
	}
	return len(c.replicas)
}

// run lets d pass in small steps.
func (c *cluster) run(d time.Duration) {
	const every = 20 * time.Millisecond
	for end := time.Now().Add(d); ; time.Sleep(min(every, time.Until(end))) {
		now := time.Now()
		if c.before != nil {
			c.before()
		}
		for i, r := range c.replicas {
			for len(r.later) > 0 && !r.later[0].at.After(now) {
				r.see(r.later[0].workers)
				r.later = r.later[1:]
			}
			if !r.down {
				r.core.Tick(now)
				c.send(now, i, r.core.Flush(now))
			}
		}
		if c.plain != nil {
			c.net.Send(now, len(c.replicas), c.nodes(), c.plain.flush())
		}
		c.net.Deliver(now, c.deliver)
		if !now.Before(end) {
			return
		}
	}
}

func (c *cluster) send(now time.Time, from int, msgs []replication.Message) {
	if c.sent != nil {
		for _, m := range msgs {
			c.sent(from, m)
		}
	}
	c.net.Send(now, from, c.nodes(), msgs)
}

func (c *cluster) deliver(to int, m replication.Message) {
	if to == len(c.replicas) {
		c.plain.receive(m)
		return
	}
	if r := c.replicas[to]; !r.down {
		if c.got != nil {
			c.got(to, m)
		}
		r.seen[r.core.Receive(time.Now(), m)]++
	}
}

// acquire takes a lease on the session or the turn to choose.
func (c *cluster) acquire(r *replica, session string) (*held, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	var known version
	if ev, ok := r.tableOf(session).Current(session); ok {
		known = versionOf(ev)
	}
	l, err := r.tableOf(session).Acquire(ctx, session, fleet.Target{})
	if err != nil {
		return nil, err
	}
	h := &held{Lease: &l, session: session, known: known}
	if _, bound := h.Target(); bound && known == (version{}) {
		return h, violation("session %s was bound although nothing was known of it, or it had expired", session)
	}
	return h, r.canServe(h)
}

// bind ends the turn of h.
func (c *cluster) bind(r *replica, h *held, worker fleet.WorkerID) error {
	kept, _ := r.tableOf(h.session).Current(h.session)
	wins := versionOf(kept).above(h.known) && r.live.View().IsSchedulable(partOf(h.session, r.parts), kept.Target)
	if err := h.Bind(fleet.OnRank(worker, 0)); err != nil {
		return err
	}
	if now, _ := r.tableOf(h.session).Current(h.session); wins && versionOf(now) != versionOf(kept) {
		return violation("session %s was moved from %v, where another replica had just bound it, to %v", h.session, kept.Target, now.Target)
	}
	return r.canServe(h)
}

// canServe returns a violation if the lease is on what must not be used here.
func (r *replica) canServe(h *held) error {
	if target, bound := h.Target(); bound && !r.live.View().IsSchedulable(partOf(h.session, r.parts), target) {
		return violation("session %s got %v, which cannot be scheduled", h.session, target)
	}
	return nil
}

// open acquires the session and binds it, if it is not, to the given worker.
func (c *cluster) open(r *replica, session string, worker fleet.WorkerID) (*held, error) {
	h, err := c.acquire(r, session)
	if err != nil {
		return nil, err
	}
	if _, bound := h.Target(); !bound {
		if err := c.bind(r, h, worker); err != nil {
			return nil, err
		}
	}
	return h, nil
}
