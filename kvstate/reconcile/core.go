package reconcile

import (
	"time"

	"mooring/internal/agenda"
	"mooring/internal/fleet"
	"mooring/kvstate"
)

// core is the reconciler without its machinery: inputs change it, and settle says
// what has to be done. It reads no clock, starts nothing and is not safe for
// concurrent use. Whether an owner is projected is decided by kvstate.Resolve
// alone; the core gathers what Resolve is given.
type core struct {
	statusPeriod time.Duration // between questions to an agent that is well
	grace        time.Duration // how long the state of a publisher that was replaced is kept

	view    *fleet.View
	watches map[watch]*watchState
	owners  map[kvstate.CacheOwnerID]*owner
	on      map[fleet.WorkerID]map[*owner]int // owners by the workers they name, with how often
	fillers map[kvstate.Worker]*owner         // whose events write a worker's own blocks
	users   map[fleet.Partition]int           // how many owners hold state in a partition's index
	left    map[fleet.Partition]bool          // partitions that an owner left

	agenda  agenda.Agenda[*owner] // who is to be looked at again
	touched []*owner
	calls   map[uint64]*owner // questions that are out
	lastID  uint64            // of calls and streams
	out     effects
}

// watchState is what one discovery source said.
type watchState struct {
	known   bool
	lost    error // why it is not known; nil also before the first look
	records map[recordName]kvstate.CacheOwnerID
}

// recordName names a record of one watch: ids of two topics may be equal.
type recordName struct {
	topic string
	id    uint64
}

func newCore(view *fleet.View, statusPeriod, grace time.Duration) *core {
	return &core{
		statusPeriod: statusPeriod, grace: grace, view: view,
		watches: map[watch]*watchState{configuration: {known: true}},
		owners:  make(map[kvstate.CacheOwnerID]*owner),
		on:      make(map[fleet.WorkerID]map[*owner]int),
		fillers: make(map[kvstate.Worker]*owner),
		users:   make(map[fleet.Partition]int),
		left:    make(map[fleet.Partition]bool),
		calls:   make(map[uint64]*owner),
	}
}

// owner returns the owner with that id, which it makes if need be.
func (c *core) owner(id kvstate.CacheOwnerID) *owner {
	o := c.owners[id]
	if o == nil {
		o = &owner{
			id: id, key: id.Key(),
			sources:     make(map[recordKey]kvstate.SourceAdvertisement),
			attachments: make(map[recordKey]kvstate.AttachmentAdvertisement),
		}
		c.owners[id] = o
	}
	return o
}

// touch has an owner looked at by the next settle.
func (c *core) touch(o *owner) {
	if !o.touched {
		o.touched = true
		c.touched = append(c.touched, o)
	}
}

func (c *core) nextID() uint64 {
	c.lastID++
	return c.lastID
}

// see takes a new view of the workers and touches the owners of those whose
// liveness or partition changed.
func (c *core) see(view *fleet.View) {
	old := c.view
	c.view = view
	for id, owners := range c.on {
		before, _ := old.Worker(id)
		after, _ := view.Worker(id)
		if sameForUs(before, after) {
			continue
		}
		for o := range owners {
			c.touch(o)
		}
	}
}

func sameForUs(a, b *fleet.Worker) bool {
	if a == nil || b == nil {
		return a == b
	}
	return serves(a) == serves(b) && a.Ranks == b.Ranks && a.Home() == b.Home()
}

// serves reports whether a worker's blocks can be of use. One that is draining
// gets no new sessions, but those it has go on.
func serves(w *fleet.Worker) bool { return w.State == fleet.Active || w.State == fleet.Draining }

// live is kvstate.Inputs.Live.
func (c *core) live(w kvstate.Worker) bool {
	known, ok := c.view.Worker(workerID(w))
	return ok && serves(known) && w.DPRank < known.Ranks
}

func workerID(w kvstate.Worker) fleet.WorkerID { return fleet.WorkerID(w.WorkerID) }

// name counts that o names a worker (by = 1), or does no longer (by = -1).
func (c *core) name(o *owner, w kvstate.Worker, by int) {
	id := workerID(w)
	owners := c.on[id]
	if owners == nil {
		owners = make(map[*owner]int)
		c.on[id] = owners
	}
	owners[o] += by
	if owners[o] == 0 {
		delete(owners, o)
	}
	if len(owners) == 0 {
		delete(c.on, id)
	}
}

// settle looks at every owner that an input or the clock touched, once, and
// returns what is to be done. The next settle is due at the returned time, zero if
// not before the next input.
func (c *core) settle(now time.Time) (effects, time.Time) {
	for o, _, due := c.agenda.Take(now); due; o, _, due = c.agenda.Take(now) {
		c.touch(o)
	}
	for i := 0; i < len(c.touched); i++ { // a look at one owner can touch another
		o := c.touched[i]
		c.touched[i], o.touched = nil, false
		c.look(o, now)
	}
	c.touched = c.touched[:0]
	out := c.out
	out.unused = c.unused()
	c.out = effects{}
	next, _ := c.agenda.Next()
	return out, next
}

// look brings one owner in line with what is known.
func (c *core) look(o *owner, now time.Time) {
	c.agenda.Remove(o)
	if !o.fed {
		c.choose(o)
		c.tidy(o, now)
		c.age(o, now)
		if w := o.held.worker; o.held.engine && c.fillers[w] == o && !c.written(w) {
			c.miss(o, w)
		}
	}
	c.judge(o, now)
	if !o.fed {
		c.ask(o, now)
	}
}
