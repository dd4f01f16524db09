package extproc

import "mooring/affinity"

// maxRecentEnds bounds the ends that are remembered in case their pick follows.
const maxRecentEnds = 4096

// recentEnds remembers the last ends of requests that nobody knew. It is a ring:
// the oldest makes room. Not safe for concurrent use.
type recentEnds struct {
	ends map[joinKey]affinity.Outcome
	ring []joinKey // of what was put, in order; the next to be overwritten at at
	at   int
}

func newRecentEnds() recentEnds {
	return recentEnds{ends: make(map[joinKey]affinity.Outcome)}
}

func (r *recentEnds) put(key joinKey, outcome affinity.Outcome) {
	if _, again := r.ends[key]; again {
		return
	}
	r.ends[key] = outcome
	if len(r.ring) < maxRecentEnds {
		r.ring = append(r.ring, key)
		return
	}
	delete(r.ends, r.ring[r.at])
	r.ring[r.at] = key
	r.at = (r.at + 1) % maxRecentEnds
}

// take returns the end of a request and forgets it.
func (r *recentEnds) take(key joinKey) (affinity.Outcome, bool) {
	outcome, ok := r.ends[key]
	delete(r.ends, key)
	return outcome, ok
}
