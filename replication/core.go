package replication

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// Message is what travels on the mesh: two frames, or three with a key.
type Message struct {
	Topic   string
	Payload []byte
	Auth    []byte // with a key: see Signer
	From    string // of one that was received: the endpoint it came from, if known
}

// Core is the replication of one replica as a state machine. Local is safe for
// concurrent use; all other methods belong to one goroutine.
type Core struct {
	cfg  Config
	sink *sink
	rng  *rand.Rand

	started    time.Time // when the joining began
	progress   time.Time // when it did, or something lacking came
	ready      bool
	timedOut   bool
	echoes     string    // the endpoint from which our own messages come back
	nextHello  time.Time // zero: none
	helloSent  time.Time
	helloSince time.Time // when the hellos began that are repeated now
	digestCame time.Time // the latest
	nextDigest time.Time
	digestSent time.Time
	nextInUse  time.Time
	inUse      int // the part of the tables whose turn is next
	nextForget time.Time
	nextLook   time.Time // at the tables that there are
	records    allowance // to be sent as repair
	subs       allowance // buckets whose sub-buckets are told
	sequence   uint64

	peers     peers
	tables    map[*affinity.Table]bool // those at the last look
	held      holding
	refused   map[uint64]time.Time // sums refused for their clock, at most maxRefused
	resent    map[uint64]time.Time // sums sent as repair
	asks      []*asking            // at most maxJobs
	answers   []*answering         // at most maxJobs
	subsAsked []subsAsked          // at most maxJobs
	refs      []affinity.Ref       // scratch
	out       []Message

	counted [dispositions]prometheus.Counter
	dropped prometheus.Counter
}

const (
	helloEvery = 500 * time.Millisecond // digests of all that is here, at most, too
	lookEvery  = 50 * time.Millisecond
)

// silence is after how long a sender that was not heard of is not there: who is
// there tells it each second.
const silence = 5 * time.Second

// New returns a Core that starts to join at now.
func New(now time.Time, cfg Config) (*Core, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Core{
		cfg: cfg, sink: newSink(cfg.MaxQueue), rng: rand.New(rand.NewPCG(cfg.SenderID, 1)), started: now, progress: now,
		peers: peers{byID: make(map[uint64]*peer)}, held: holding{parts: make(map[fleet.Partition]*heldPart)}, refused: make(map[uint64]time.Time), resent: make(map[uint64]time.Time),
	}
	c.nextHello, c.helloSince, c.nextDigest = now, now, now.Add(c.jitter())
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mooring_replication_events_total", Help: "Messages of other replicas, by what became of them.",
	}, []string{"disposition"})
	for d := range dispositions {
		c.counted[d] = events.WithLabelValues(d.String())
	}
	c.dropped = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "mooring_replication_dropped_total", Help: "Events that were not sent since too many waited; the digest repairs them.",
	})
	if cfg.Registerer != nil {
		for _, m := range []prometheus.Collector{events, c.dropped} {
			if err := cfg.Registerer.Register(m); err != nil {
				return nil, fmt.Errorf("register replication metrics: %w", err)
			}
		}
	}
	return c, nil
}

func (c *Core) jitter() time.Duration {
	d := c.cfg.DigestEvery
	return d*4/5 + time.Duration(c.rng.Int64N(int64(d)/5+1))
}

func (c *Core) count(d Disposition) { c.counted[d].Inc() }

// Local queues what happened to a session here. It never blocks: it may be an
// affinity.Config's Publish.
func (c *Core) Local(p fleet.Partition, ev affinity.Event) {
	c.sink.add(p, ev, !c.cfg.ablate.leadingEdge)
}

// Wake is sent to when Flush has something to send at once.
func (c *Core) Wake() <-chan struct{} { return c.sink.wake }

// Connected tells that a peer was reached, anew or for the first time: it may
// have missed anything. What is said then is said to all, so one that comes and
// goes all the time has it said each helloEvery and no more.
func (c *Core) Connected(now time.Time) {
	c.helloSoon(now)
	c.digestSoon(now)
}

// Receive takes a message from the network and says what became of it. The
// payload is not kept.
func (c *Core) Receive(now time.Time, m Message) Disposition {
	d := c.receive(now, m)
	c.count(d)
	return d
}

func (c *Core) receive(now time.Time, m Message) Disposition {
	switch m.Topic {
	case TopicV1, TopicV2:
		return c.receiveEvent(now, m)
	case TopicSync:
		return c.receiveSync(now, m)
	default:
		return Malformed
	}
}

func (c *Core) receiveEvent(now time.Time, m Message) Disposition {
	if m.Topic == TopicV1 {
		if p := c.peers.byID[senderOf(m.Payload)]; p != nil && p.heardV2 {
			return DuplicateV1
		}
	}
	e, err := DecodeEvent(m.Payload)
	if err != nil {
		return Malformed
	}
	switch e.SenderID {
	case c.cfg.SenderID:
	case 0:
		c.othersSpeak(m.From)
	default:
		p := c.hear(now, e.SenderID, e.SenderSeq, m.From)
		p.heardV2 = p.heardV2 || m.Topic == TopicV2
	}
	return c.Apply(now, e.partition(), &e)
}

func (c *Core) receiveSync(now time.Time, raw Message) Disposition {
	m, err := DecodeSync(raw.Payload)
	switch {
	case err != nil:
		return Malformed
	case m.SenderID == c.cfg.SenderID:
		c.echoes = raw.From
		return OwnSender
	}
	p := c.hear(now, m.SenderID, m.SenderSeq, raw.From)
	switch m.Type {
	case Hello:
		if len(m.Buckets) > 0 {
			c.askedForSubs(now, p, &m)
			break
		}
		if p != nil {
			p.askSoon()
		}
		c.digestSoon(now)
	case DigestOf:
		c.digestCame = now
		if !c.cfg.ablate.noDigests {
			c.compare(now, p, &m)
		}
	case Want:
		c.answer(&m)
	case Floor:
		ms := m.TTLMillis
		ev := affinity.Event{Kind: affinity.EventUnpinned, Session: m.SessionID, Sequence: m.Sequence, WriterID: m.WriterID, Life: c.lifeOf(&ms)}
		return c.apply(now, m.Partition, ev, false)
	case StreamEnd:
		if m.To == c.cfg.SenderID && c.cfg.Ended != nil {
			c.cfg.Ended(m.End)
		}
	case Alive:
		p.WriterID, p.answered = m.WriterID, p.answered || m.Digested
	default:
		return UnknownType
	}
	return Synced
}

// Tick does what is due: hellos, digests, refreshes of sessions in use, and a
// bounded part of the repairs.
func (c *Core) Tick(now time.Time) {
	c.records.refill(now, repairPerSec, repairBurst)
	c.subs.refill(now, subsPerSec, subsBurst)
	if !now.Before(c.nextForget) {
		c.nextForget = now.Add(time.Second)
		c.forget(now)
	}
	if !now.Before(c.nextLook) {
		c.nextLook = now.Add(lookEvery)
		c.noticeTables(now)
		c.releaseHeld(now)
	}
	c.join(now)
	if !now.Before(c.nextDigest) {
		c.digestSent, c.nextDigest = now, now.Add(c.jitter())
		c.sendDigests()
	}
	for n := 0; n < affinity.InUseParts && !now.Before(c.nextInUse); n++ {
		c.refreshInUse(now)
	}
	c.tellSubs(now)
	c.advanceAnswers(now, c.advanceAsks(looksPerTick))
}

// refreshInUse publishes the sessions in use in one part of the tables. All
// parts take their turn within TTL/4, so that neither the look nor what it
// publishes comes all at once.
func (c *Core) refreshInUse(now time.Time) {
	for _, t := range c.inOrder() {
		for _, ev := range t.InUse(c.inUse) {
			c.Local(t.Partition(), ev)
		}
	}
	c.inUse = (c.inUse + 1) % affinity.InUseParts
	round := c.cfg.Sessions.TTL() / 4
	if now.Sub(c.nextInUse) > round { // at the start, and after this process was stopped
		c.nextInUse = now
	}
	c.nextInUse = c.nextInUse.Add(round / affinity.InUseParts)
}

// flushBatch bounds what one Flush takes from the sink.
const flushBatch = 4096

// Flush returns what is to be sent now, in order. The slice is the caller's.
func (c *Core) Flush(now time.Time) []Message {
	interval := max(100*time.Millisecond, c.cfg.Sessions.TTL()/8)
	due, dropped := c.sink.drain(now, interval, flushBatch)
	c.dropped.Add(float64(dropped))
	for _, o := range due {
		if ev, ok := c.asItIs(o); ok {
			c.sendRecord(o.partition, ev)
		}
	}
	out := c.out
	c.out = nil
	return out
}

// asItIs returns what is due with the life that it has now: it may have waited
// for long, if this process was stopped. False if it has ended, or if another
// took its place, which whoever made that publishes.
func (c *Core) asItIs(o outgoing) (ev affinity.Event, ok bool) {
	table, ok := c.cfg.Sessions.Table(o.partition)
	if !ok {
		return ev, false
	}
	if o.event.Kind == affinity.EventUnpinned {
		ev, ok = table.Floor(o.event.Session)
	} else {
		ev, ok = table.Current(o.event.Session)
	}
	return ev, ok && (o.refresh || ev.Sequence == o.event.Sequence && ev.WriterID == o.event.WriterID)
}
