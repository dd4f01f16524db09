package affinity

import (
	"container/heap"
	"encoding/base64"
	"slices"
	"strings"

	"mooring/internal/fleet"
)

// MaxPage is the largest page that List returns.
const MaxPage = 10000

// Filter says which bindings List returns. Zero fields match everything.
type Filter struct {
	Model  string
	Group  string
	Worker fleet.WorkerID
}

func (f Filter) admits(p fleet.Partition) bool {
	return (f.Model == "" || f.Model == p.Model) && (f.Group == "" || f.Group == p.Group)
}

// List returns up to limit bindings, at least 1 and at most MaxPage, ordered by
// group, model and session, and what to pass as after for the next page; "" says
// that there is none. after "" begins at the start; one that List has not made is
// beyond the end.
//
// The order does not depend on what is bound or ended between two pages: a
// binding that exists all the time is listed exactly once. A page looks at every
// binding of its partitions, but never holds a lock for more than a few hundred.
func (r *Resolver) List(f Filter, after string, limit int) (page []Entry, next string) {
	from, ok := parseCursor(after)
	if !ok {
		return nil, ""
	}
	limit = min(max(limit, 1), MaxPage)
	tables := slices.DeleteFunc(r.all(), func(t *Table) bool {
		return !f.admits(t.partition) || t.partition.Compare(from.partition) < 0
	})
	slices.SortFunc(tables, func(a, b *Table) int { return a.partition.Compare(b.partition) })
	for _, t := range tables {
		session := ""
		if t.partition == from.partition {
			session = from.session
		}
		page = append(page, t.page(f.Worker, session, limit+1-len(page))...)
		if len(page) > limit {
			page = page[:limit]
			last := page[limit-1]
			return page, cursor{last.Partition, last.Session}.String()
		}
	}
	return page, ""
}

// page returns the first n bindings after the given session, ordered.
func (t *Table) page(worker fleet.WorkerID, after string, n int) []Entry {
	now, alive := t.now(), t.alive()
	first := make(firstEntries, 0, min(n, 1024))
	for i := range t.shards {
		t.shards[i].eachLocked(func(e *entry) {
			full := len(first) == n
			if e.session <= after || full && e.session >= first[0].Session || worker != 0 && e.target.Worker != worker {
				return
			}
			d, ok := t.describeLocked(e, now, alive)
			switch {
			case !ok:
			case full:
				first[0] = d
				heap.Fix(&first, 0)
			default:
				heap.Push(&first, d)
			}
		})
	}
	slices.SortFunc(first, func(a, b Entry) int { return strings.Compare(a.Session, b.Session) })
	return first
}

// BindingsByWorker returns how many sessions are bound to each worker, over all
// partitions and whether or not the worker can be scheduled.
func (r *Resolver) BindingsByWorker() map[fleet.WorkerID]int {
	counts := make(map[fleet.WorkerID]int)
	for _, t := range r.all() {
		now := t.now()
		for i := range t.shards {
			t.shards[i].eachLocked(func(e *entry) {
				s := e.state
				if s.settle(now); s.bound() {
					counts[s.target.Worker]++
				}
			})
		}
	}
	return counts
}

// eachLocked calls f with the shard locked for every entry that is there all the
// time, and for some of those that come or go meanwhile. It lets others in every
// few hundred entries: a range over a map allows changes between its steps.
func (sh *shard) eachLocked(f func(*entry)) {
	const batch = 256
	n := 0
	sh.mu.Lock()
	for _, e := range sh.mu.entries {
		f(e)
		if n++; n%batch == 0 {
			sh.mu.Unlock()
			sh.mu.Lock()
		}
	}
	sh.mu.Unlock()
}

// firstEntries is a heap with the last session on top, to be pushed out first.
type firstEntries []Entry

func (h firstEntries) Len() int           { return len(h) }
func (h firstEntries) Less(i, j int) bool { return h[i].Session > h[j].Session }
func (h firstEntries) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *firstEntries) Push(x any)        { *h = append(*h, x.(Entry)) }
func (h *firstEntries) Pop() any          { panic("never called: entries are replaced, not popped") }

// cursor is the last binding of a page. Its text is opaque and safe in a URL:
// group, model and session joined by the bytes 0 and 2, each 0 within them
// written as 0 and 1, in base64.
type cursor struct {
	partition fleet.Partition
	session   string
}

func (c cursor) String() string {
	parts := []string{c.partition.Group, c.partition.Model, c.session}
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(p, "\x00", "\x00\x01")
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, "\x00\x02")))
}

func parseCursor(text string) (c cursor, ok bool) {
	if text == "" {
		return cursor{}, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return cursor{}, false
	}
	parts := strings.Split(string(raw), "\x00\x02")
	if len(parts) != 3 {
		return cursor{}, false
	}
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(p, "\x00\x01", "\x00")
	}
	return cursor{fleet.Partition{Group: parts[0], Model: parts[1]}, parts[2]}, true
}
