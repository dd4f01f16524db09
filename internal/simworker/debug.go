package simworker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Limits of the debug endpoints.
const (
	maxEchoBytes    = 4 << 30
	maxStreamChunks = 100_000
	maxChunkBytes   = 1 << 20
	maxChunkEvery   = time.Minute
	defaultListed   = 100
)

// streamDigest is the trailer in which /debug/stream gives the SHA-256 of all
// it sent, in hexadecimal.
const streamDigest = "X-Sim-Sha256"

// echoAnswer is the answer of /debug/echo.
type echoAnswer struct {
	SHA256   string      `json:"sha256"`
	Bytes    int64       `json:"bytes"`
	Trailers http.Header `json:"trailers,omitempty"`
}

// debugEcho answers POST /debug/echo with what arrived: digest and length of
// the body, and trailers. It holds no body in memory.
func (w *Worker) debugEcho(rw http.ResponseWriter, r *http.Request) error {
	rec, err := w.drainBody(rw, r, io.Discard, maxEchoBytes)
	if err != nil {
		return err
	}
	writeJSON(rw, http.StatusOK, echoAnswer{SHA256: rec.BodySHA256, Bytes: rec.BodyBytes, Trailers: r.Trailer})
	return nil
}

// debugStream answers GET /debug/stream?n=CHUNKS&bytes=EACH&every=DURATION
// with that many chunks, each flushed; a chunk is one letter repeated, the
// next chunk the next letter. A trailer carries the digest.
func (w *Worker) debugStream(rw http.ResponseWriter, r *http.Request) error {
	w.history.add(received(r))
	q := r.URL.Query()
	chunks, err := queryInt(q, "n", 10, maxStreamChunks)
	if err != nil {
		return err
	}
	size, err := queryInt(q, "bytes", 16, maxChunkBytes)
	if err != nil {
		return err
	}
	every := time.Duration(0)
	if text := q.Get("every"); text != "" {
		if every, err = time.ParseDuration(text); err != nil || every < 0 || every > maxChunkEvery {
			return badRequest("every must be a duration from 0s to %v", maxChunkEvery)
		}
	}
	rw.Header().Set("Trailer", streamDigest)
	rw.Header().Set("Content-Type", "application/octet-stream")
	digest := sha256.New()
	out := newFlusher(rw)
	next := time.Now()
	for i := range chunks {
		if err := sleepUntil(r.Context(), next); err != nil {
			return err
		}
		next = next.Add(every)
		chunk := bytes.Repeat([]byte{'a' + byte(i%26)}, size)
		digest.Write(chunk)
		if err := out.write(chunk); err != nil {
			return err
		}
	}
	rw.Header().Set(streamDigest, hex.EncodeToString(digest.Sum(nil)))
	return nil
}

// receivedList is the answer of /debug/requests.
type receivedList struct {
	Requests []Received `json:"requests"`
}

// debugRequests answers GET /debug/requests?session=ID&path=PATH&limit=N with
// the requests received last, newest first. session matches the value of any
// of the default session headers.
func (w *Worker) debugRequests(rw http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit, err := queryInt(q, "limit", defaultListed, keptRequests)
	if err != nil {
		return err
	}
	session, path := q.Get("session"), q.Get("path")
	writeJSON(rw, http.StatusOK, receivedList{w.history.newest(limit, func(rec *Received) bool {
		return (session == "" || rec.hasSession(session)) && (path == "" || rec.Path == path)
	})})
	return nil
}

// queryInt reads a number from 1 to most out of a query.
func queryInt(q url.Values, name string, absent, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, badRequest("%s must be a number from 1 to %d", name, most)
	}
	return n, nil
}
