package routing

import "time"

// Figures are what a worker, or one of its ranks, said of its own load. They
// cover the requests of everybody, this replica's included.
type Figures struct {
	Running  int       // requests that are being computed
	Waiting  int       // requests that wait for their turn
	KVUse    float64   // share of the KV blocks that requests hold, 0 to 1
	KVBlocks int       // how many KV blocks there are; 0: not known, and KVUse counts in limits only
	At       time.Time // when it was said
}

// figuresLife is how long figures count. They count in full when they are new,
// and less and less until then: what a worker said some seconds ago is a poor
// guess, but a better one than nothing.
const figuresLife = 10 * time.Second

// freshness says what figures of a given age count, 0 to 1.
func freshness(age time.Duration) float64 {
	return min(1, max(0, 1-float64(age)/float64(figuresLife)))
}

// Limits keep targets that are too busy out of a choice. 0 means no limit. What a
// session is bound to, and what a client names, is no choice: it queues there.
type Limits struct {
	ActiveRequests  int     // that run or wait on a target
	WaitingRequests int     // that wait on it, as its worker says
	KVUse           float64 // share of the KV blocks in use, as its worker says
}

// exceeded reports whether a target with this work and these figures takes no
// more requests by choice. What the worker said holds as it was said for as long as
// it counts at all: a limit that faded with it would let requests in between any
// two answers.
func (l *Limits) exceeded(work Work, f Figures, fresh float64) bool {
	return l.ActiveRequests > 0 && work.Requests >= float64(l.ActiveRequests) ||
		l.WaitingRequests > 0 && fresh > 0 && f.Waiting >= l.WaitingRequests ||
		l.KVUse > 0 && fresh > 0 && f.KVUse >= l.KVUse
}
