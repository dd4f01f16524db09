package simworker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// bodyTimeout bounds the reading of one body. It is shorter than writeTimeout,
// so that a client whose body took too long is told.
const bodyTimeout = time.Minute

// readBody reads a request's body into memory and remembers the request.
func (w *Worker) readBody(rw http.ResponseWriter, r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	_, err := w.drainBody(rw, r, &body, w.cfg.MaxBodyBytes)
	if err != nil {
		return nil, err
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &apiError{http.StatusUnsupportedMediaType, refusedBad, "content-encoding is not supported: send the body as it is"}
	}
	return body.Bytes(), nil
}

// drainBody copies a request's body of at most limit bytes into dst and
// remembers the request, whether or not the body was whole.
func (w *Worker) drainBody(rw http.ResponseWriter, r *http.Request, dst io.Writer, limit int64) (Received, error) {
	rec := received(r)
	digest := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, digest), http.MaxBytesReader(rw, r.Body, limit))
	rec.BodyBytes, rec.BodyComplete = n, err == nil
	rec.BodySHA256 = hex.EncodeToString(digest.Sum(nil))
	w.history.add(rec)
	if err != nil {
		return rec, bodyError(err)
	}
	// From here on an expired deadline would look like a client that left.
	setReadDeadline(http.NewResponseController(rw), time.Time{})
	return rec, nil
}

// setReadDeadline bounds what is read from now on. Recorders in tests have no
// deadlines, and a connection that can't take one any more fails at the next
// read: there is nothing to do about the error.
func setReadDeadline(rc *http.ResponseController, t time.Time) {
	_ = rc.SetReadDeadline(t)
}

// setDeadlines prepares a connection for a request: its body has bodyTimeout,
// even if no handler reads it, because the server does then; and the write
// deadline of the response before it no longer counts.
func setDeadlines(rw http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(rw)
	setWriteDeadline(rc, time.Time{})
	if r.ContentLength != 0 {
		setReadDeadline(rc, time.Now().Add(bodyTimeout))
	}
}

// bodyError says what a failure to read a body is to the client.
func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &apiError{http.StatusRequestEntityTooLarge, refusedLarge, "the request body is too large"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &apiError{http.StatusRequestTimeout, refusedSlow, "the request body took too long"}
	}
	return err
}
