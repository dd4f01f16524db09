package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// WorkerID names one worker incarnation. Ids use all 64 bits: they must never
// pass through a float64, so they travel as decimal strings outside Go.
// Zero is no worker.
type WorkerID uint64

// DeriveWorkerID returns the id of a worker that was configured without one:
// the same on every replica for the same identity text (an address as it stands
// in the configuration, or the unique instance id that discovery knows). It is
// the first eight bytes, big-endian, of the text's SHA-256, and never zero.
func DeriveWorkerID(identity string) WorkerID {
	sum := sha256.Sum256([]byte("mooring worker " + identity))
	id := WorkerID(binary.BigEndian.Uint64(sum[:8]))
	if id == 0 {
		return 1
	}
	return id
}

// ParseWorkerID reads the decimal form that String writes. Zero is refused.
func ParseWorkerID(s string) (WorkerID, error) {
	id, err := strconv.ParseUint(s, 10, 64)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("worker id %q: want a decimal number from 1 to 18446744073709551615", s)
	}
	return WorkerID(id), nil
}

// String returns the id in decimal.
func (id WorkerID) String() string { return strconv.FormatUint(uint64(id), 10) }

// Partition separates what must never meet: sessions, workers and KV state
// belong to one (model, routing group) pair and never cross to another.
type Partition struct {
	Model string // model name; "default" where nothing names one
	Group string // routing group; "default" where nothing names one
}

// DefaultName is the model and the routing group of what names none.
const DefaultName = "default"

// String returns "model/group", for logs.
func (p Partition) String() string { return p.Model + "/" + p.Group }

// Compare orders partitions by group, then model.
func (p Partition) Compare(q Partition) int {
	return cmp.Or(strings.Compare(p.Group, q.Group), strings.Compare(p.Model, q.Model))
}

// Target is where a session is bound: a worker and, optionally, one of its
// data-parallel ranks. A worker-only target is not the same as rank 0.
// The zero Target is no target. Targets are comparable with ==.
type Target struct {
	Worker WorkerID
	Rank   uint32 // meaningful only if Ranked; 0 otherwise
	Ranked bool
}

// WorkerOnly returns the target of a worker without naming a rank.
func WorkerOnly(id WorkerID) Target { return Target{Worker: id} }

// OnRank returns the target of one rank of a worker.
func OnRank(id WorkerID, rank uint32) Target {
	return Target{Worker: id, Rank: rank, Ranked: true}
}

// IsZero reports whether t is no target.
func (t Target) IsZero() bool { return t == Target{} }

// String returns "worker_id" or "worker_id:rank".
func (t Target) String() string {
	if !t.Ranked {
		return t.Worker.String()
	}
	return t.Worker.String() + ":" + strconv.FormatUint(uint64(t.Rank), 10)
}

// Compare orders targets by worker, then worker-only before ranked, then rank.
func (t Target) Compare(u Target) int {
	return cmp.Or(cmp.Compare(t.Worker, u.Worker), compareBool(t.Ranked, u.Ranked), cmp.Compare(t.Rank, u.Rank))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
