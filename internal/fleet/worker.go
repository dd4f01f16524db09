package fleet

import (
	"strconv"
	"time"
)

// State says what a worker may be given.
type State uint8

const (
	// Unhealthy: its probes failed, or it has not passed its first one yet.
	// It is the zero value, so that a worker nobody has judged gets nothing.
	Unhealthy State = iota
	// Active: takes new sessions and turns. The only schedulable state.
	Active
	// Draining: told to leave. It finishes what it has and gets no next turn.
	Draining
	// Vanished: no longer listed by its source, remembered for the grace.
	Vanished
)

// States lists every State, for metrics that show zeros.
var States = [...]State{Active, Draining, Unhealthy, Vanished}

// String returns the lower-case name used in the admin API and in metrics.
func (s State) String() string {
	switch s {
	case Unhealthy:
		return "unhealthy"
	case Active:
		return "active"
	case Draining:
		return "draining"
	case Vanished:
		return "vanished"
	default:
		return "state(" + strconv.Itoa(int(s)) + ")"
	}
}

// Worker is one serving process as the fleet sees it now. A Worker inside a
// View is never changed; its slices must not be written to.
type Worker struct {
	ID      WorkerID
	Address string // destination, "ip:port" or "[v6]:port", canonical; what Envoy is told; "" while its name is unresolved
	Name    string // the address as configured (may be a DNS name); shown to operators

	Models   []string // models it serves, at least one; the first owns the adapters
	Adapters []string // further model names that belong to the first model's partition
	Group    string   // routing group
	Ranks    uint32   // data-parallel ranks, at least 1: ranks 0 to Ranks-1 exist

	KVEvents  string // ZeroMQ endpoint of rank 0's KV events; empty: none
	KVReplay  string // ZeroMQ endpoint of rank 0's replay; empty: none
	BlockSize int    // tokens per KV block; 0: learnt from its events

	State   State
	Since   time.Time // when it entered State
	Doubted bool      // its source lists it no more, which is not believed yet
}

// Home returns the partition of the worker's first model: its adapters belong
// there, and the KV cache that all its models share is known there.
func (w *Worker) Home() Partition { return Partition{Model: w.Models[0], Group: w.Group} }

// Schedulable reports whether the worker takes new sessions and next turns.
func (w *Worker) Schedulable() bool { return w.State == Active }

// Has reports whether target names this worker and, if it names a rank, one
// that exists.
func (w *Worker) Has(t Target) bool {
	return t.Worker == w.ID && (!t.Ranked || t.Rank < w.Ranks)
}
