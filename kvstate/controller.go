package kvstate

import (
	"sync"
	"sync/atomic"
)

// Controller owns the projection that look-ups read. All methods may be called
// from any goroutine; readers never wait for writers.
type Controller struct {
	writing   sync.Mutex // held from reading the current projection to swapping it
	current   atomic.Pointer[Projection]
	conflicts atomic.Uint64
}

// NewController returns a controller with an empty projection.
func NewController() *Controller {
	c := new(Controller)
	c.current.Store(new(Projection))
	return c
}

// Report is what a change of the projection led to.
type Report struct {
	Owners        int              // cache owners projected now
	SharedWorkers int              // workers with more than one of them now
	Conflicts     []*ConflictError // owners that were dropped, each with its first conflict
	Changed       bool             // a new projection was installed
}

// Projection returns the current projection, never nil. It takes no lock and
// allocates nothing; use one result for the whole of one look-up.
func (c *Controller) Projection() *Projection { return c.current.Load() }

// Conflicts returns how many owners were dropped for a conflict so far.
func (c *Controller) Conflicts() uint64 { return c.conflicts.Load() }

// Publish replaces the whole projection by the Ready ones of rs. An owner that is
// Ready on two workers is dropped, counted and reported; all others are kept.
func (c *Controller) Publish(rs []Resolution) Report {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.applyLocked(new(Projection), rs)
}

// Update changes only the owners that rs names: each is projected as its
// resolution says, or not at all. Conflicts are as in Publish. The cost does not
// grow with the owners that rs does not name, but for a copy of 1/256 of them.
func (c *Controller) Update(rs ...Resolution) Report {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.applyLocked(c.current.Load(), rs)
}

func (c *Controller) applyLocked(base *Projection, rs []Resolution) Report {
	settled, conflicts := settle(rs)
	edit := base.edit()
	for i := range settled {
		edit.put(&settled[i])
	}
	c.conflicts.Add(uint64(len(conflicts)))
	changed := edit.changed || base != c.current.Load()
	if changed {
		c.current.Store(&edit.next)
	}
	return Report{Owners: edit.next.owners, SharedWorkers: edit.next.shared, Conflicts: conflicts, Changed: changed}
}
