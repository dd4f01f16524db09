package index

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/internal/fleet"
)

// DefaultMaxBlocks is Config.MaxBlocks if it is 0.
const DefaultMaxBlocks = 4 << 20

// Config of a Set.
type Config struct {
	// MaxBlocks bounds the (block, owner) pairs of one partition, orphans included.
	// 0 or less is DefaultMaxBlocks; at most 2^28 count.
	MaxBlocks int
	// Registerer gets the metrics; nil for none.
	Registerer prometheus.Registerer
}

// mostBlocks keeps the ids of nodes and holders within 32 bits.
const mostBlocks = 1 << 28

// Set is the indexes of all partitions. All methods may be called from any
// goroutine.
type Set struct {
	maxBlocks int
	metrics   *metrics
	changing  sync.Mutex // held from reading indexes to swapping it
	indexes   atomic.Pointer[map[fleet.Partition]*Index]
}

// NewSet returns a set without partitions. It panics if cfg.Registerer has the
// metrics of another set already.
func NewSet(cfg Config) *Set {
	if cfg.MaxBlocks <= 0 {
		cfg.MaxBlocks = DefaultMaxBlocks
	}
	s := &Set{maxBlocks: min(cfg.MaxBlocks, mostBlocks), metrics: newMetrics()}
	s.indexes.Store(&map[fleet.Partition]*Index{})
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(s.metrics.all...)
		cfg.Registerer.MustRegister(newGauges(s))
	}
	return s
}

// Partition returns the index of p, if it was opened. It takes no lock and
// allocates nothing.
func (s *Set) Partition(p fleet.Partition) (*Index, bool) {
	ix, ok := (*s.indexes.Load())[p]
	return ix, ok
}

// Open returns the index of p, which it makes if need be.
func (s *Set) Open(p fleet.Partition) *Index {
	s.changing.Lock()
	defer s.changing.Unlock()
	old := *s.indexes.Load()
	ix, ok := old[p]
	if !ok {
		ix = newIndex(s.maxBlocks, s.metrics)
		changed := maps.Clone(old)
		changed[p] = ix
		s.indexes.Store(&changed)
	}
	return ix
}

// Drop forgets the index of p. What still has it finds it empty, and its stores
// are refused.
func (s *Set) Drop(p fleet.Partition) {
	s.changing.Lock()
	old := *s.indexes.Load()
	ix, ok := old[p]
	changed := maps.Clone(old)
	delete(changed, p)
	s.indexes.Store(&changed)
	s.changing.Unlock()
	if ok {
		ix.close()
	}
}

// close empties the index for good.
func (ix *Index) close() {
	ix.mu.Lock()
	ix.mu.closed = true
	var detached []*owner
	for _, own := range ix.mu.owners {
		ix.detachLocked(own)
		detached = append(detached, own)
	}
	ix.mu.Unlock()
	for _, own := range detached {
		ix.sweep(own)
	}
}
