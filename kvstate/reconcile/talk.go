package reconcile

import (
	"errors"
	"fmt"
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
)

const (
	statusTimeout   = 5 * time.Second
	recoveryTimeout = 30 * time.Second
)

// talk is the conversation with an owner's agent. The zero value is none.
type talk struct {
	// Questions that are out. A status is asked beside a recovery, not behind it.
	status   uint64
	recovery uint64
	question question // of the recovery
	about    engine   // whose state the recovery is about
	start    uint64   // the first event that a range is asked from

	asked       time.Time // when a status was asked for that has not come; zero: none is out
	statusAt    time.Time // when the next status is due; zero: at once
	statusPause pause
	fresh       bool // a status arrived, and the next one is not scheduled yet
	trouble     pause

	statusProblem error // why there is no status; nil: there is, or it is on its way
	problem       error // of the last recovery; nil: none
	streamProblem error // with what came last on the stream; nil: none

	restoring uint64                   // the recovery whose state goes into the index now
	stale     bool                     // nobody waits for its outcome any more
	restored  held                     // what the index will hold then
	confirm   *kvstate.RecoveryReceipt // counts once a status asked after it arrives

	stream    uint64 // the open stream
	endpoint  string // its address, "": none
	connected bool

	newest uint64 // the highest event id that is known to exist
	owed   uint64 // events up to here must have come when the next status is answered
	lost   bool   // events up to newest are missing and will not come by themselves
	doubt  bool   // what is held must not be added to: only the full state helps
}

// engine is one attachment of an engine.
type engine struct {
	worker     kvstate.Worker
	generation uint64
}

func engineOf(a *kvstate.AttachmentAdvertisement) engine {
	return engine{a.Worker, a.AttachmentGeneration}
}

// errNotSpoken is about agents that cannot be asked.
func errNotSpoken(t kvstate.Transport) error {
	return fmt.Errorf("its agent is reached by %s, and Dynamo's own request plane is not spoken here: only http is", t.Kind)
}

// choose makes the agent of the only source the one that is talked to, and nobody
// if there is no such source.
func (c *core) choose(o *owner) {
	var want agent
	if s, ok := sole(o.sources); ok {
		want = agentOf(&s)
	}
	if want == o.agent {
		return
	}
	c.hangUp(o)
	o.agent = want
	if want != (agent{}) && want.target.Transport.Kind != kvstate.HTTP {
		o.problem = errNotSpoken(want.target.Transport)
	}
}

// hangUp ends the conversation with o's agent. What is held stays.
func (c *core) hangUp(o *owner) {
	c.drop(&o.talk.status)
	c.drop(&o.talk.recovery)
	c.listen(o, "")
	o.talk = talk{restoring: o.talk.restoring, stale: true, restored: o.talk.restored, doubt: o.talk.doubt}
	o.tail.clear()
	o.status, o.problem = nil, nil
}

// why says what is wrong with o's agent or its state, nil if nothing is.
func (o *owner) why() error {
	switch {
	case o.problem != nil:
		return o.problem
	case o.talk.statusProblem != nil:
		return o.talk.statusProblem
	case o.talk.problem != nil:
		return o.talk.problem
	default:
		return o.talk.streamProblem
	}
}

// drop forgets a question that is out.
func (c *core) drop(id *uint64) {
	if *id != 0 {
		delete(c.calls, *id)
		c.out.hangUps = append(c.out.hangUps, *id)
		*id = 0
	}
}

// listen opens o's stream of live events at an endpoint; "" closes it.
func (c *core) listen(o *owner, endpoint string) {
	if o.talk.endpoint == endpoint {
		return
	}
	o.talk.endpoint, o.talk.connected, o.talk.stream = endpoint, false, 0
	if endpoint != "" {
		o.talk.stream = c.nextID()
	}
	c.out.streams = append(c.out.streams, stream{o.talk.stream, o.id, endpoint})
}

// ask asks o's agent what is to be known, and schedules what is not due yet.
func (c *core) ask(o *owner, now time.Time) {
	if o.until.After(now) { // else the restore that delays it wakes o
		c.wake(o, o.until)
	}
	if o.agent.target.Transport.Kind != kvstate.HTTP {
		return
	}
	c.scheduleStatus(o, now)
	a, one := sole(o.attachments)
	doubted := o.talk.doubt && o.talk.question == askRange // only the full state helps
	if o.talk.recovery != 0 && (!one || o.talk.about != engineOf(&a) || doubted) {
		c.drop(&o.talk.recovery)
	}
	if o.talk.status == 0 {
		at := o.talk.statusAt
		if o.talk.statusPause.until.After(at) {
			at = o.talk.statusPause.until
		}
		if at.After(now) {
			c.wake(o, at)
		} else {
			o.talk.status = c.call(o, askStatus, kvstate.QueryRequest{})
			if o.talk.asked.IsZero() { // else an answer was not waited for; that says nothing of the agent
				o.talk.asked = now
			}
		}
	}
	if o.talk.status != 0 && o.status != nil {
		c.wake(o, c.tooOld(o))
	}
	if q := c.wants(o); q != 0 && o.talk.trouble.until.After(now) {
		c.wake(o, o.talk.trouble.until)
	} else if q != 0 {
		c.recover(o, q, &a)
	}
}

// tooOld returns when the last status counts no more, if the question that is out
// is not answered until then. Its own time-out begins when it is its turn, which
// may take long if other agents are slow.
func (c *core) tooOld(o *owner) time.Time { return o.talk.asked.Add(c.statusPeriod + statusTimeout) }

// age drops a status that is too old. The question stays out.
func (c *core) age(o *owner, now time.Time) {
	if o.status != nil && o.talk.status != 0 && !c.tooOld(o).After(now) {
		o.status, o.talk.statusProblem = nil, errors.New("status: not answered in time, or it is not its turn yet")
	}
}

// onlyUncertain reports whether o would be ready if discovery were known.
func (o *owner) onlyUncertain() bool {
	return len(o.resolution.Reasons) == 1 && o.resolution.Reason == kvstate.WatchUncertain
}

// wake has o looked at again, at the latest then.
func (c *core) wake(o *owner, at time.Time) { c.agenda.AtLatest(o, at) }

// scheduleStatus says, after a status, when the next one is due: in a period if
// all is well or a recovery goes on, else after a pause.
func (c *core) scheduleStatus(o *owner, now time.Time) {
	if !o.talk.fresh {
		return
	}
	o.talk.fresh = false
	recovering := o.talk.recovery != 0 || o.talk.restoring != 0 || c.wants(o) != 0
	if o.resolution.State == kvstate.Ready || recovering || o.onlyUncertain() {
		o.talk.statusPause = pause{}
		o.talk.statusAt = now.Add(c.statusPeriod)
		return
	}
	o.talk.statusPause.begin(now)
	o.talk.statusAt = o.talk.statusPause.until
}

// wants returns which recovery o needs and could have now, 0 for none.
func (c *core) wants(o *owner) question {
	a, one := sole(o.attachments)
	busy := o.talk.recovery != 0 || o.talk.restoring != 0 || o.talk.confirm != nil
	if !one || o.status == nil || busy || !o.recoverable() {
		return 0
	}
	p, ok := c.partition(a.Worker)
	switch {
	case !ok:
		return 0
	case o.talk.doubt, o.receipt == nil, !o.held.follows(o.agent.identity.PublisherID, &a, p):
		return askFull
	case o.talk.lost, o.held.cursor < a.ReadyAtOutboundCursor && o.held.cursor < o.status.OutboundCursor:
		return askRange
	}
	return 0
}

// partition returns the partition in whose index a worker's blocks go.
func (c *core) partition(w kvstate.Worker) (fleet.Partition, bool) {
	known, ok := c.view.Worker(workerID(w))
	if !ok {
		return fleet.Partition{}, false
	}
	return known.Home(), true
}

// recover asks for o's full state, or for the events that are missing.
func (c *core) recover(o *owner, q question, a *kvstate.AttachmentAdvertisement) {
	request := kvstate.QueryRequest{SupportsTreeDumpFailed: true}
	request.Kind.ExpectedAttachmentGeneration = &a.AttachmentGeneration
	if q == askRange {
		start := o.held.cursor + 1
		request.StartEventID, o.talk.start = &start, start
		if first, ok := o.tail.first(); ok && first > start {
			end := first - 1
			request.EndEventID = &end
		}
	} else {
		o.tail.clear() // what is there is in the full state
		o.talk.newest = 0
	}
	o.talk.question, o.talk.about = q, engineOf(a)
	o.talk.recovery = c.call(o, q, request)
}

// call completes a request and has it made. It returns its id.
func (c *core) call(o *owner, q question, request kvstate.QueryRequest) uint64 {
	if a, ok := sole(o.attachments); ok {
		request.WorkerID = a.Worker.WorkerID
	}
	request.DPRank = o.agent.rank
	request.Kind.Expected = o.agent.identity
	request.Kind.Op = kvstate.QueryStateAgentRecovery
	timeout := recoveryTimeout
	if q == askStatus {
		request.Kind.Op, timeout = kvstate.QueryStatus, statusTimeout
	}
	id := c.nextID()
	c.calls[id] = o
	c.out.calls = append(c.out.calls, call{id, o.id, q, o.agent.target, request, timeout})
	return id
}
