package affinity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mooring/internal/fleet"
)

// Resolver holds the tables of all partitions. Make one with NewResolver; all
// methods are safe for concurrent use.
type Resolver struct {
	cfg      Config
	live     *fleet.Live
	epoch    time.Time
	sequence sequencer
	metrics  *metrics

	tables atomic.Pointer[map[fleet.Partition]*Table] // immutable; replaced under mu
	mu     sync.Mutex
}

// maxTables bounds the partitions, which come from the configuration or from
// discovery: a source that invents models must not fill the memory.
const maxTables = 1024

// spareTables is how many of those Run keeps free for new partitions, at the
// expense of the unpins of absent ones.
const spareTables = 64

// NewResolver returns a Resolver for the partitions that live has, now or later.
// Bindings end on time without Run, but their memory is freed only by it.
func NewResolver(live *fleet.Live, cfg Config) (*Resolver, error) {
	if live == nil {
		return nil, errors.New("session tables need a fleet")
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Resolver{cfg: cfg, live: live, epoch: time.Now(), metrics: newMetrics()}
	r.tables.Store(&map[fleet.Partition]*Table{})
	if cfg.Registerer != nil {
		for _, c := range append(r.metrics.all, newGauges(r)) {
			if err := cfg.Registerer.Register(c); err != nil {
				return nil, fmt.Errorf("register session metrics: %w", err)
			}
		}
	}
	return r, nil
}

// Table returns the table of a partition. There is one only if the fleet's view
// has the partition, or had it recently: what a request names never makes one.
func (r *Resolver) Table(p fleet.Partition) (*Table, bool) {
	if t, ok := (*r.tables.Load())[p]; ok {
		return t, true
	}
	if !r.live.View().HasPartition(p) {
		return nil, false
	}
	return r.addTable(p)
}

func (r *Resolver) addTable(p fleet.Partition) (*Table, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := *r.tables.Load()
	if t, ok := old[p]; ok {
		return t, true
	}
	if len(old) >= maxTables {
		r.metrics.refusedTables.Inc()
		return nil, false
	}
	tables := maps.Clone(old)
	t := newTable(r, p, shardCount)
	tables[p] = t
	r.tables.Store(&tables)
	return t, true
}

// all returns the tables in no order. The slice is the caller's.
func (r *Resolver) all() []*Table {
	return slices.Collect(maps.Values(*r.tables.Load()))
}

// sweepEvery is how often Run looks for what has ended. It bounds how long
// ended bindings keep their memory and count in the metrics, nothing else.
const sweepEvery = time.Second

// Run frees what has expired, and the tables of partitions that the fleet no
// longer has, until ctx ends; then it returns ctx's error. It is to be called
// once.
func (r *Resolver) Run(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	absent := make(map[*Table]instant) // since when its partition is not in the view
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		for _, t := range r.all() {
			now := t.now()
			t.sweep(now)
			t.floors.sweep(now, &t.digest)
		}
		r.retire(absent)
	}
}

// retire drops the tables of partitions that have been out of the fleet's view
// for the grace, once they have neither bindings nor floors: an unpin counts for
// a partition that returns too. The grace is longer than any request waits, so
// that no request still holds such a table and binds in it unseen.
func (r *Resolver) retire(absent map[*Table]instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	view := r.live.View()
	old := *r.tables.Load()
	kept := make(map[fleet.Partition]*Table, len(old))
	var unpins []*Table // with nothing else in them
	for p, t := range old {
		now := t.now()
		if view.HasPartition(p) {
			delete(absent, t)
		} else if _, known := absent[t]; !known {
			absent[t] = now
		}
		if since, gone := absent[t]; gone && time.Duration(now-since) >= r.cfg.Grace && t.entries.Load() == 0 {
			if t.floors.size.Load() == 0 {
				delete(absent, t)
				continue
			}
			unpins = append(unpins, t)
		}
		kept[p] = t
	}
	slices.SortFunc(unpins, func(a, b *Table) int { return cmp.Compare(absent[a], absent[b]) })
	for _, t := range unpins[:min(len(unpins), max(0, len(kept)-maxTables+spareTables))] {
		add(r.metrics.floorsEvicted, int(t.floors.size.Load()))
		delete(absent, t)
		delete(kept, t.partition)
	}
	if len(kept) < len(old) {
		r.tables.Store(&kept)
	}
}
