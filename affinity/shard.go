package affinity

import (
	"strings"
	"sync"

	"mooring/internal/fleet"
)

// entry is one session of a table. It is in its shard's map and heap, or it is
// empty and stays so: leases of a removed entry find nothing in it.
type entry struct {
	state
	hashed
	wake chan struct{} // closed when the turn or the binding changes; nil: nobody waits
	pos  int32         // in the shard's deadlines
}

// shard is the part of a table that one lock guards.
type shard struct {
	mu struct {
		sync.Mutex
		entries map[string]*entry
		due     deadlines
		bound   int // entries with a binding
		leases  int // sum over the entries
	}
	_ [64]byte // keeps the locks of neighbours on different cache lines
}

// earlier is what fileLocked must know of an entry as it was before a transition.
type earlier struct {
	target  fleet.Target
	leases  int32
	turn    *turn
	version version
}

func (e *entry) earlier() earlier {
	return earlier{target: e.target, leases: e.leases, turn: e.turn, version: e.version}
}

// fileLocked puts e where it belongs after a transition: out of the shard if
// nothing is left of it, else into it and its heap. If those who wait for the
// session have reason to look again, it returns the channel that the caller must
// close after unlocking.
func (sh *shard) fileLocked(t *Table, e *entry, was earlier, now instant) (wake chan struct{}) {
	sh.mu.leases += int(e.leases - was.leases)
	switch {
	case e.bound() && was.target.IsZero():
		sh.mu.bound++
	case !e.bound() && !was.target.IsZero():
		sh.mu.bound--
	}
	if e.version != was.version || e.target != was.target {
		t.hash(e)
	}
	if e.wake != nil && (e.turn != was.turn || e.target != was.target) {
		wake, e.wake = e.wake, nil
	}
	if !e.empty() {
		if e.pos == unfiled {
			sh.mu.entries[e.session] = e
		}
		sh.mu.due.file(e, e.due(now, &t.rules))
	} else if e.pos != unfiled {
		delete(sh.mu.entries, e.session)
		sh.mu.due.remove(e)
		t.entries.Add(-1)
	}
	return wake
}

// openLocked returns the settled entry of a session, made new if there is none
// and there is room. A new entry is not in the shard before fileLocked; if the
// transition leaves it empty, closeLocked forgets it.
func (sh *shard) openLocked(t *Table, session string, now instant, fx *effects) (e *entry, was earlier, ok bool) {
	return sh.openLockedTo(t, session, now, t.limit, fx)
}

// openLockedTo is openLocked with another limit on the entries of the table.
func (sh *shard) openLockedTo(t *Table, session string, now instant, limit int64, fx *effects) (e *entry, was earlier, ok bool) {
	if e = sh.mu.entries[session]; e != nil {
		was = e.earlier()
		fx.count(e.settle(now))
		return e, was, true
	}
	if !t.reserve(limit) {
		return nil, earlier{}, false
	}
	// The id may be a small part of a large header, which it must not keep alive.
	return &entry{hashed: hashed{session: strings.Clone(session)}, pos: unfiled}, earlier{}, true
}

// closeLocked files e after a transition that began with openLocked.
func (sh *shard) closeLocked(t *Table, e *entry, was earlier, now instant, fx *effects) {
	if e.empty() && e.pos == unfiled {
		t.entries.Add(-1) // the reservation
		return
	}
	if wake := sh.fileLocked(t, e, was, now); wake != nil {
		fx.wake = wake
	}
}

// waitLocked returns the channel that closes when trying again may help.
func (e *entry) waitLocked() <-chan struct{} {
	if e.wake == nil {
		e.wake = make(chan struct{})
	}
	return e.wake
}

// sweepBatch is how many entries one hold of the lock looks at: enough that
// locking costs little, few enough that a hold stays far below 1 ms even when
// every look is a cache miss.
const sweepBatch = 128

// sweep looks at up to sweepBatch entries that are due, removes what has ended
// and files the rest anew. It reports whether more may be due.
func (sh *shard) sweep(t *Table, now instant) (more bool) {
	var wake []chan struct{}
	var fx effects
	sh.mu.Lock()
	n := 0
	for ; n < sweepBatch && len(sh.mu.due) > 0 && sh.mu.due[0].due <= now; n++ {
		e := sh.mu.due[0].entry
		was := e.earlier()
		fx.count(e.settle(now))
		if !e.empty() {
			sh.mu.due.postpone(e.due(now, &t.rules))
		}
		if w := sh.fileLocked(t, e, was, now); w != nil {
			wake = append(wake, w)
		}
	}
	sh.mu.Unlock()
	for _, w := range wake {
		close(w)
	}
	t.perform(&fx)
	return n == sweepBatch
}
