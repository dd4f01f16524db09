package affinity

import (
	"context"

	"mooring/internal/fleet"
)

type Table struct{}
type Resolver struct{}
type Lease struct{}
type Outcome uint8

const (
	Completed Outcome = iota
	ClientAborted
	UpstreamFailed
	NeverSent
)

type Filter struct {
	Model, Group string
	Worker       fleet.WorkerID
}

func NewResolver(live *fleet.Live, cfg Config) (*Resolver, error)            { return nil, cfg.validate() }
func (r *Resolver) Table(p fleet.Partition) (*Table, bool)                   { return nil, false }
func (r *Resolver) Run(ctx context.Context) error                            { return nil }
func (r *Resolver) List(f Filter, after string, limit int) ([]Entry, string) { return nil, "" }
func (t *Table) Acquire(context.Context, string, fleet.Target) (Lease, error) {
	return Lease{}, ErrFull
}
func (t *Table) Lookup(session string) (Entry, bool) { return Entry{}, false }
func (t *Table) Query(session string, requested fleet.Target) (fleet.Target, bool, error) {
	return fleet.Target{}, false, nil
}
func (t *Table) Pin(session string, target fleet.Target) (Entry, error) { return Entry{}, errNoTarget }
func (t *Table) Unpin(session string) bool                              { return false }
func (l *Lease) Target() (fleet.Target, bool)                           { return fleet.Target{}, false }
func (l *Lease) Moved() bool                                            { return false }
func (l *Lease) Bind(target fleet.Target) error                         { return nil }
func (l *Lease) Check(dispatched fleet.Target) error                    { return nil }
func (l *Lease) Release(o Outcome)                                      {}
