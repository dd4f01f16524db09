package extproc

import (
	"sync"
	"time"
)

// Bounds of waiting for an access log.
const (
	silentAfter = 10 * time.Second // picks without a log stream: somebody forgot to configure it
	unloadAfter = 60 * time.Second // a lease whose end nobody will report weighs nothing
)

// reports knows whether anybody reports the ends of requests. Safe for
// concurrent use; the zero value has heard of nobody.
type reports struct {
	mu struct {
		sync.Mutex
		open    int       // access log streams
		waiting time.Time // since when picks are made without one; zero: none are
	}
}

func (r *reports) opened() {
	r.mu.Lock()
	r.mu.open++
	r.mu.waiting = time.Time{}
	r.mu.Unlock()
}

// passed says that another replica has passed on an end: it reports for us.
func (r *reports) passed() {
	r.mu.Lock()
	r.mu.waiting = time.Time{}
	r.mu.Unlock()
}

// closed says that a stream has ended.
func (r *reports) closed() {
	r.mu.Lock()
	r.mu.open--
	r.mu.Unlock()
}

// picked says that a pick was made now. It reports whether its end is likely to
// go unreported.
func (r *reports) picked(now time.Time) (silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.open > 0 {
		return false
	}
	if r.mu.waiting.IsZero() {
		r.mu.waiting = now
	}
	return now.Sub(r.mu.waiting) >= silentAfter
}

// silent reports whether picks have been made for silentAfter without anybody
// to report their ends.
func (r *reports) silent(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.open == 0 && !r.mu.waiting.IsZero() && now.Sub(r.mu.waiting) >= silentAfter
}

// any reports whether an access log stream is open.
func (r *reports) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.open > 0
}
