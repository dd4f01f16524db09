package reconcile

import (
	"time"

	"mooring/internal/fleet"
	"mooring/kvstate"
)

// effects is what the core wants done after an input, in the order of the fields.
// What is inside belongs to the receiver.
type effects struct {
	verdicts []verdict         // to publish
	edits    []edit            // of the index
	unused   []fleet.Partition // whose index is to be dropped
	restores []restore         // of the index, possibly long; each is answered by core.restored
	hangUps  []uint64          // calls whose answer nobody waits for
	calls    []call            // to make; each is answered by core.answered
	streams  []stream          // to open or close

	refused  []reason // what was not taken, to be counted
	resolves int      // how often Resolve was asked
}

// verdict is a new resolution of one owner. An owner of which nothing is known any
// more is neither ready nor has it a reason.
type verdict struct {
	before, now kvstate.Resolution // before is zero for an owner that is new
	problem     error
	quiet       bool // the owner changes all the time
}

// edit is one change of what the index holds for an owner.
type edit struct {
	partition fleet.Partition
	owner     kvstate.OwnerKey
	worker    kvstate.OwnerKey // key of the engine's worker; the zero key: none

	clearOwner, clearWorker bool // first
	fills                   bool // worker-domain events are applied too
	events                  []kvstate.RouterEvent
}

// restore puts a recovered state into the index.
type restore struct {
	call uint64
	edit
	blockSize int
}

// question is what a call asks.
type question uint8

const (
	askStatus question = iota + 1
	askRange           // the events that are missing
	askFull            // the whole state
)

func (q question) String() string {
	return [...]string{"nothing", "status", "range", "full"}[q]
}

// call is one question to an owner's agent. It ends after its timeout.
type call struct {
	id       uint64 // never 0; another one for each call
	owner    kvstate.CacheOwnerID
	question question
	target   kvstate.Instance
	request  kvstate.QueryRequest
	timeout  time.Duration
}

// stream is the live events of one owner; endpoint "" closes it.
type stream struct {
	id       uint64 // another one for each opening
	owner    kvstate.CacheOwnerID
	endpoint string
}
