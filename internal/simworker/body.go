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

// bodyTimeout bounds the reading of one body.
const bodyTimeout = 2 * time.Minute

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
	// The deadline must go before the handler works on: an expired one would
	// look like a client that left. A recorder in a test has no deadlines.
	rc := http.NewResponseController(rw)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()

	digest := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, digest), http.MaxBytesReader(rw, r.Body, limit))
	rec.BodyBytes, rec.BodyComplete = n, err == nil
	rec.BodySHA256 = hex.EncodeToString(digest.Sum(nil))
	w.history.add(rec)
	return rec, bodyError(err)
}

// bodyError says what a failure to read a body is to the client.
func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return &apiError{http.StatusRequestEntityTooLarge, refusedLarge, "the request body is too large"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &apiError{http.StatusRequestTimeout, refusedSlow, "the request body took too long"}
	}
	return err
}
