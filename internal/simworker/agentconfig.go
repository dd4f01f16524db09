package simworker

import (
	"errors"
	"fmt"
	"time"
)

// StateAgent says whether and how a worker runs a state agent for each of its
// ranks, as Dynamo's state agent host does: the durable half of the rank's KV
// pool, which outlives the engine that is attached to it.
type StateAgent struct {
	// Dir is the directory of discovery records: the source and the attachment of
	// each rank are written to <Dir>/<topic>/<record id>.json. Records there of
	// the same cache owner, which a process before this one has left, are removed.
	// Empty: no agent, and the rest has no meaning. With an agent, Events.Endpoint
	// is tcp://127.0.0.1:0 unless set.
	Dir string
	// CacheOwner names the KV pool; rank i's slot is "<CacheOwner>/<i>". Default
	// Config.Name.
	CacheOwner string
	// WorkerID is the id by which Mooring knows this worker.
	WorkerID uint64
	// PublisherID is the id of rank 0's agent, rank i's is that plus i. It must
	// be another one for each process.
	PublisherID uint64
	// Buffer is how many of an agent's last events can be recovered as a range.
	// Default 4096.
	Buffer int
	// DropEvery withholds every so many-th batch of live events. Default 0: none.
	DropEvery int
	// Fault is what is wrong with the agents at first.
	Fault AgentFault
	// Delay is how late an answer is under AgentLate. Default 6s, which is more
	// than a router waits for a status.
	Delay time.Duration
}

func (a StateAgent) withDefaults(name string) (StateAgent, error) {
	setDefault(&a.CacheOwner, name)
	setDefault(&a.Buffer, 4096)
	setDefault(&a.Delay, 6*time.Second)
	if a.Dir == "" {
		return a, nil
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(a.WorkerID != 0, "state agent: the worker id is missing")
	check(a.PublisherID != 0, "state agent: the publisher id is missing")
	check(len(a.CacheOwner) <= 512, "state agent: the cache owner must be at most 512 bytes")
	check(a.Buffer >= 1 && a.Buffer <= maxEventQueue, "state agent: buffer %d: must be 1 to %d", a.Buffer, maxEventQueue)
	check(a.DropEvery >= 0, "state agent: drop %d: must not be negative", a.DropEvery)
	check(a.Delay > 0 && a.Delay < writeTimeout, "state agent: delay %v: must be positive and less than %v", a.Delay, writeTimeout)
	return a, errors.Join(errs...)
}

// AgentFault is what is wrong with a state agent.
type AgentFault uint8

const (
	// AgentFine is an agent as it should be.
	AgentFine AgentFault = iota
	// AgentLate answers after StateAgent.Delay.
	AgentLate
	// AgentGeneration states another attachment generation than it advertises.
	AgentGeneration
	// AgentIdentity recovers in the name of another publisher.
	AgentIdentity
	// AgentBehind stays one event behind the barrier of its attachment: neither
	// status nor recovery reach it, and no live event comes.
	AgentBehind
)

// agentFaults are the names of the faults.
func agentFaults() []string { return []string{"none", "late", "generation", "identity", "behind"} }

// String returns the name of the fault.
func (f AgentFault) String() string { return nameOf(f, agentFaults()) }

// MarshalText implements encoding.TextMarshaler.
func (f AgentFault) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *AgentFault) UnmarshalText(text []byte) error { return valueOf(f, agentFaults(), text) }
