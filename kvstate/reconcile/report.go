package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mooring/kvstate"
	"mooring/kvstate/feed"
)

// OwnerReport is one cache owner for operators, as GET /v1/projection has it.
// 64-bit numbers are strings in JSON.
type OwnerReport struct {
	Owner      string    `json:"owner"` // the compact key, 32 hex digits
	Identity   string    `json:"identity"`
	Source     string    `json:"source"`               // config, directory, or both
	Resolution string    `json:"resolution"`           // unavailable, unknown or ready
	Reason     string    `json:"reason"`               // why not ready; "" if it is
	Reasons    []string  `json:"reasons"`              // every reason that holds
	Mismatches []string  `json:"mismatches,omitempty"` // what makes a status_mismatch
	WorkerID   uint64    `json:"worker_id,string"`     // of the only attachment, 0 if there is none
	DPRank     uint32    `json:"dp_rank"`              //
	Barrier    uint64    `json:"barrier,string"`       // of the only attachment
	Cursor     uint64    `json:"cursor,string"`        // events up to here are in the index
	Holed      bool      `json:"holed"`                // what the index holds has known holes
	Shared     bool      `json:"shared"`               // another owner names the same worker
	Problem    string    `json:"problem,omitempty"`    // what is wrong with its agent or its state, for people
	Since      time.Time `json:"since"`                // when resolution, reason and worker came to be
}

// Owners returns every known cache owner, ordered by Owner.
func (r *Reconciler) Owners() []OwnerReport {
	r.mu.Lock()
	all := make([]OwnerReport, 0, len(r.mu.core.owners))
	ids := make([]*owner, 0, len(r.mu.core.owners))
	cursors := make([]func() uint64, 0, len(r.mu.core.owners))
	naming := r.mu.core.naming()
	for _, o := range r.mu.core.owners {
		all, ids, cursors = append(all, o.report(naming)), append(ids, o), append(cursors, o.cursor)
	}
	r.mu.Unlock()
	for i, o := range ids { // an owner's identity never changes
		all[i].Owner, all[i].Identity = o.key.String(), o.id.String()
		if cursor := cursors[i]; cursor != nil {
			all[i].Cursor = cursor()
		}
	}
	slices.SortFunc(all, func(a, b OwnerReport) int { return cmp.Compare(a.Owner, b.Owner) })
	return all
}

// report describes one owner, but for its identity, and the cursor of a feed.
// naming is how many owners name each worker.
func (o *owner) report(naming map[kvstate.Worker]int) OwnerReport {
	res := &o.resolution
	rep := OwnerReport{
		Source: o.from(), Resolution: res.State.String(), Reason: res.Reason.String(),
		Reasons: []string{}, Cursor: o.held.cursor, Holed: o.held.any && o.hasHoles(), Since: o.since,
	}
	for _, reason := range res.Reasons {
		rep.Reasons = append(rep.Reasons, reason.String())
	}
	for _, m := range res.Mismatches {
		rep.Mismatches = append(rep.Mismatches, m.String())
	}
	if a, ok := sole(o.attachments); ok {
		rep.WorkerID, rep.DPRank, rep.Barrier = a.Worker.WorkerID, a.Worker.DPRank, a.ReadyAtOutboundCursor
		rep.Shared = naming[a.Worker] > 1
	}
	if err := o.why(); err != nil {
		rep.Problem = err.Error()
	}
	return rep
}

// from names the sources of o's records.
func (o *owner) from() string {
	names := make(map[string]bool)
	if o.fed {
		names[string(configuration)] = true
	}
	for key := range o.sources {
		names[string(key.watch)] = true
	}
	for key := range o.attachments {
		names[string(key.watch)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), "+")
}

// naming counts the owners that have an attachment of each worker. It looks at
// each owner once: thousands may name the same worker.
func (c *core) naming() map[kvstate.Worker]int {
	naming := make(map[kvstate.Worker]int)
	for _, o := range c.owners {
		mine := make(map[kvstate.Worker]bool, len(o.attachments))
		for _, a := range o.attachments {
			if !mine[a.Worker] {
				mine[a.Worker] = true
				naming[a.Worker]++
			}
		}
	}
	return naming
}

// Worker says how the KV state of one rank of a worker stands, as GET /v1/workers
// has it. state is "none" if no cache owner names it, "error" if its blocks have
// another size than the partition's, else that of its owner: ready if one of
// several is. reason says why it is not ready, "" if it is.
func (r *Reconciler) Worker(w kvstate.Worker) (state, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var best *owner
	for o := range r.mu.core.on[workerID(w)] {
		names := o.fed && o.held.worker == w
		for _, a := range o.attachments {
			names = names || a.Worker == w
		}
		if names && (best == nil || better(o, best)) {
			best = o
		}
	}
	switch {
	case best == nil:
		return "none", ""
	case errors.Is(best.why(), errBlockSize):
		return "error", "block_size"
	default:
		return best.resolution.State.String(), best.resolution.Reason.String()
	}
}

// better orders owners of one worker: the state that is nearer to ready, then the
// key, so that the answer does not change by itself.
func better(a, b *owner) bool {
	return cmp.Or(cmp.Compare(b.resolution.State, a.resolution.State), cmp.Compare(a.key.String(), b.key.String())) < 0
}

// unreachableAfter is how long an engine or an agent may be out of reach before
// that is a problem: they restart.
const unreachableAfter = 5 * time.Second

// Problems returns what operators should look at, for the warnings of GET /readyz:
// lost watches, engines and agents that are out of reach, block sizes that do not fit,
// and workers with several cache owners. Of many alike some are named.
func (r *Reconciler) Problems() []string {
	var all []string
	if n := r.cfg.Controller.Projection().SharedWorkers(); n > 0 {
		all = append(all, fmt.Sprintf("kv state: workers to which more than one cache owner is projected: %d", n))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, w := range r.mu.core.watches {
		if !w.known {
			why := "they were not read yet"
			if w.lost != nil {
				why = w.lost.Error()
			}
			all = append(all, fmt.Sprintf("kv state: the records of the %s %s are uncertain: %s", name, r.cfg.RecordsDir, why))
		}
	}
	var owners []string
	for _, o := range r.mu.core.owners {
		err := o.why()
		lasts := time.Since(o.since) >= unreachableAfter
		silent := err != nil && (errors.Is(err, feed.ErrDisconnected) || o.resolution.Reason == kvstate.EndpointUnreachable)
		if lasts && silent || errors.Is(err, errBlockSize) {
			owners = append(owners, fmt.Sprintf("kv state: cache owner %s: %v", o.key, err))
		}
	}
	slices.Sort(owners)
	if more := len(owners) - maxProblems; more > 0 {
		owners = append(owners[:maxProblems], fmt.Sprintf("kv state: %d more cache owners have problems", more))
	}
	all = append(all, owners...)
	slices.Sort(all)
	return all
}

// maxProblems bounds the owners that Problems names.
const maxProblems = 20

// tally is what the gauges show.
type tally struct {
	owners            map[kvstate.Reason]int
	holed, wrongSizes int
	watches           map[watch]bool // known
}

func (r *Reconciler) tally() tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := tally{owners: make(map[kvstate.Reason]int), watches: make(map[watch]bool)}
	for _, o := range r.mu.core.owners {
		t.owners[o.resolution.Reason]++
		if o.resolution.State == kvstate.Ready && o.hasHoles() {
			t.holed++
		}
		if errors.Is(o.why(), errBlockSize) {
			t.wrongSizes++
		}
	}
	for name, w := range r.mu.core.watches {
		t.watches[name] = w.known
	}
	return t
}
