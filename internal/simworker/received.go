package simworker

import (
	"net/http"
	"sync"
	"time"
)

const (
	// keptRequests is how many requests the worker remembers.
	keptRequests = 4096
	// keptHeaderBytes bounds the headers remembered of one request.
	keptHeaderBytes = 16 << 10
)

// Received is what arrived with one request, for tests that ask what a proxy
// in front of the worker did to it.
//
//	{"time":"2026-01-02T03:04:05Z","method":"POST","path":"/v1/chat/completions","query":"","proto":"HTTP/2.0",
//	 "host":"sim","headers":{"X-Session-Id":["s1"]},"body_sha256":"9f86d0..","body_bytes":42,"body_complete":true}
type Received struct {
	// Time is when the headers had arrived.
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	Query  string    `json:"query"`
	Proto  string    `json:"proto"`
	Host   string    `json:"host"`
	// Headers are the request headers under their canonical names, with the
	// values of credentials replaced.
	Headers http.Header `json:"headers"`
	// HeadersCut says that some are missing, because they were too long.
	HeadersCut bool `json:"headers_cut,omitempty"`
	// BodySHA256 is the digest, in hexadecimal, of the BodyBytes that arrived.
	BodySHA256 string `json:"body_sha256"`
	BodyBytes  int64  `json:"body_bytes"`
	// BodyComplete is false for a body that broke off or was too long.
	BodyComplete bool `json:"body_complete"`
}

// history is a ring of the requests received last. Safe for concurrent use.
type history struct {
	mu   sync.Mutex
	ring []Received // guarded by mu; at most keptRequests
	next int        // guarded by mu; where the next one goes once the ring is full
}

func (h *history) add(r Received) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ring) < keptRequests {
		h.ring = append(h.ring, r)
		return
	}
	h.ring[h.next] = r
	h.next = (h.next + 1) % keptRequests
}

// newest returns up to limit requests that match, newest first. The callers
// share their headers and must not change them.
func (h *history) newest(limit int, match func(*Received) bool) []Received {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []Received{}
	for i := len(h.ring) - 1; i >= 0 && len(out) < limit; i-- {
		r := &h.ring[(h.next+i)%len(h.ring)]
		if match(r) {
			out = append(out, *r)
		}
	}
	return out
}

// Requests returns the requests received last, newest first, at most 4096: all
// but health probes, scrapes and questions about requests. A request is there
// as soon as its body has been read. The headers must not be changed.
func (w *Worker) Requests() []Received {
	return w.history.newest(keptRequests, func(*Received) bool { return true })
}

// received describes a request whose body is still to be read.
func received(r *http.Request) Received {
	headers, cut := keptHeaders(r.Header)
	return Received{
		Time:       time.Now(),
		Method:     r.Method,
		Path:       r.URL.Path,
		Query:      r.URL.RawQuery,
		Proto:      r.Proto,
		Host:       r.Host,
		Headers:    headers,
		HeadersCut: cut,
	}
}

// keptHeaders copies headers without credentials, and as far as they fit.
func keptHeaders(in http.Header) (kept http.Header, cut bool) {
	kept = make(http.Header, len(in))
	left := keptHeaderBytes
	for name, values := range in {
		for _, value := range values {
			if isCredential(name) {
				value = "(not kept)"
			}
			if left -= len(name) + len(value); left < 0 {
				return kept, true
			}
			kept[name] = append(kept[name], value)
		}
	}
	return kept, false
}

func isCredential(name string) bool {
	switch name {
	case "Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key":
		return true
	}
	return false
}

// sessionHeaders are the headers that carry a session id by default
// (design.md 2.2), in canonical spelling.
func sessionHeaders() []string {
	return []string{"X-Dynamo-Session-Id", "X-Claude-Code-Session-Id", "Thread-Id", "X-Deepseek-Harness-Session-Id", "X-Session-Id"}
}

// hasSession reports whether one of the session headers has this value.
func (r *Received) hasSession(session string) bool {
	for _, name := range sessionHeaders() {
		for _, value := range r.Headers[name] {
			if value == session {
				return true
			}
		}
	}
	return false
}
