package index

import (
	"github.com/prometheus/client_golang/prometheus"

	"mooring/internal/fleet"
)

// DefaultMaxBlocks is Config.MaxBlocks if it is 0.
const DefaultMaxBlocks = 4 << 20

// Config of a Set.
type Config struct {
	// MaxBlocks bounds the (block, owner) pairs of one partition, orphans included.
	// 0 is DefaultMaxBlocks.
	MaxBlocks int
	// Registerer gets the metrics; nil for none.
	Registerer prometheus.Registerer
}

// Set is the indexes of all partitions.
type Set struct{}

// NewSet returns a set without partitions.
func NewSet(cfg Config) *Set { return new(Set) }

// Partition returns the index of p, if it was opened. It takes no lock and
// allocates nothing.
func (s *Set) Partition(p fleet.Partition) (*Index, bool) { return nil, false }

// Open returns the index of p, which it makes if need be.
func (s *Set) Open(p fleet.Partition) *Index { return new(Index) }

// Drop forgets the index of p. What still has it finds it empty, and its stores
// are refused.
func (s *Set) Drop(p fleet.Partition) {}
