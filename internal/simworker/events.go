package simworker

import (
	"encoding/json"
	"net/http"
	"time"
)

const (
	// writeTimeout bounds how long a client may leave a response unread.
	writeTimeout = 2 * time.Minute
	// renewWrite is how old the deadline gets before it is set again, so that
	// it isn't set for every event.
	renewWrite = 15 * time.Second
)

// flusher writes pieces of a response that go out at once. Owned by one
// handler.
type flusher struct {
	rw      http.ResponseWriter
	rc      *http.ResponseController
	renewed time.Time
}

func newFlusher(rw http.ResponseWriter) *flusher {
	return &flusher{rw: rw, rc: http.NewResponseController(rw)}
}

// write sends a piece.
func (f *flusher) write(piece []byte) error {
	if now := time.Now(); now.Sub(f.renewed) > renewWrite {
		f.renewed = now
		setWriteDeadline(f.rc, now.Add(writeTimeout))
	}
	if _, err := f.rw.Write(piece); err != nil {
		return err
	}
	return f.rc.Flush()
}

// setWriteDeadline bounds what is written from now on. On HTTP/1.1 it would
// outlast the response, so every request begins without one (setDeadlines).
// Recorders in tests have no deadlines, and a connection that can't take one
// any more fails at the next write: there is nothing to do about the error.
func setWriteDeadline(rc *http.ResponseController, t time.Time) {
	_ = rc.SetWriteDeadline(t)
}

// eventStream is a response of server-sent events:
//
//	data: {"id":"chatcmpl-sim-1",...}
//
//	data: [DONE]
type eventStream struct {
	out *flusher
	buf []byte
}

// startEvents sends the headers of an event stream.
func startEvents(rw http.ResponseWriter) (*eventStream, error) {
	rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	rw.Header().Set("Cache-Control", "no-cache")
	rw.WriteHeader(http.StatusOK)
	s := &eventStream{out: newFlusher(rw)}
	return s, s.out.write(nil)
}

// send sends one event.
func (s *eventStream) send(body completionBody) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return s.sendData(data)
}

// done sends the event that ends a stream.
func (s *eventStream) done() error { return s.sendData([]byte("[DONE]")) }

func (s *eventStream) sendData(data []byte) error {
	s.buf = append(s.buf[:0], "data: "...)
	s.buf = append(s.buf, data...)
	s.buf = append(s.buf, "\n\n"...)
	return s.out.write(s.buf)
}
