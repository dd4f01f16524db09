package routing

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Why an encoded body cannot be read. What decodeBody returns wraps one of them
// and is for the client to see.
var (
	errUnknownEncoding = errors.New("content-encoding is not known here")
	errWrongEncoding   = errors.New("body is not what its content-encoding says")
	errDecodedTooLarge = errors.New("body is too large after decoding")
)

const (
	// maxEncodings bounds how many encodings are undone one after the other.
	maxEncodings = 2
	// maxZstdWindow is the largest window that a sender may use in HTTP (RFC 9659).
	maxZstdWindow = 8 << 20
)

// decodeBody undoes the encodings that a content-encoding header names, in the
// order in which they were applied: gzip (also as x-gzip), deflate (zlib, and
// the raw form that some clients send), br, zstd and identity. No encoding's
// output may exceed limit bytes; decoding stops there. Without an encoding to
// undo the result is body itself. body is neither changed nor kept. Safe for
// concurrent use.
func decodeBody(encoding string, body []byte, limit int64) ([]byte, error) {
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("%w: at most %d bytes", errDecodedTooLarge, limit)
	}
	if len(body) == 0 {
		return body, nil
	}
	applied, err := encodings(encoding)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Backward(applied) {
		if body, err = decode(name, body, limit); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// encodings lists what a content-encoding header names, but for identity, which
// says that nothing was done.
func encodings(header string) ([]string, error) {
	var applied []string
	for name := range strings.SplitSeq(header, ",") {
		switch name = strings.ToLower(strings.Trim(name, " \t")); name {
		case "", "identity":
			continue
		case "x-gzip":
			name = "gzip"
		case "gzip", "deflate", "br", "zstd":
		default:
			return nil, fmt.Errorf("%w: %s; gzip, deflate, br, zstd and identity are", errUnknownEncoding, quoted(name))
		}
		if len(applied) == maxEncodings {
			return nil, fmt.Errorf("%w: more than %d, one over the other", errUnknownEncoding, maxEncodings)
		}
		applied = append(applied, name)
	}
	return applied, nil
}

// decode undoes one encoding.
func decode(name string, body []byte, limit int64) ([]byte, error) {
	var plain []byte
	var err error
	switch name {
	case "gzip":
		plain, err = decodePooled(&gzipReaders, body, limit)
	case "br":
		plain, err = decodePooled(&brotliReaders, body, limit)
	case "zstd":
		plain, err = decodePooled(&zstdReaders, body, limit)
	case "deflate":
		plain, err = decodeDeflate(body, limit)
	}
	switch {
	case err == nil:
		return plain, nil
	case errors.Is(err, errDecodedTooLarge):
		return nil, fmt.Errorf("%w from %s: at most %d bytes", errDecodedTooLarge, name, limit)
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, fmt.Errorf("%w from zstd: its window is over %d bytes", errDecodedTooLarge, maxZstdWindow)
	default:
		// The decoders' own words may quote the body.
		return nil, fmt.Errorf("%w: %s", errWrongEncoding, name)
	}
}

// decodeDeflate undoes what HTTP calls deflate, which is zlib's format. Clients
// that took the name literally send the bare compressed data. The two cannot be
// confused: data that begins like zlib's header would be a stored block with
// padding bits set, which no encoder writes.
func decodeDeflate(body []byte, limit int64) ([]byte, error) {
	const header, checksum = 2, 4
	wrapped := len(body) >= header && body[0]&0x0f == 8 && binary.BigEndian.Uint16(body)%31 == 0
	var src bytes.Reader
	if wrapped {
		if body[1]&0x20 != 0 {
			return nil, errWrongEncoding // a dictionary that nobody agreed on
		}
		if len(body) < header+checksum {
			return nil, io.ErrUnexpectedEOF
		}
		src.Reset(body[header : len(body)-checksum])
	} else {
		src.Reset(body)
	}
	plain, err := readLimited(flate.NewReader(&src), len(body), limit)
	switch {
	case err != nil:
		return nil, err
	case src.Len() > 0:
		return nil, errWrongEncoding
	case wrapped && adler32.Checksum(plain) != binary.BigEndian.Uint32(body[len(body)-checksum:]):
		return nil, errWrongEncoding
	}
	return plain, nil
}

// The readers hold tables and windows that cost far more to make than a body
// costs to decode. The pools carry no state from one body to the next. None of
// the readers starts a goroutine, so that the collector may drop any of them.
var (
	gzipReaders   = sync.Pool{New: func() any { return &pooledReader{reader: new(gzip.Reader)} }}
	brotliReaders = sync.Pool{New: func() any { return &pooledReader{reader: new(brotli.Reader)} }}
	zstdReaders   = sync.Pool{New: func() any { return &pooledReader{reader: newZstdReader()} }}
)

type pooledReader struct {
	src    bytes.Reader // what reader reads; emptied before the pool gets it back
	reader interface {
		io.Reader
		Reset(io.Reader) error
	}
}

func newZstdReader() *zstd.Decoder {
	reader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		panic("routing: zstd options: " + err.Error())
	}
	return reader
}

func decodePooled(pool *sync.Pool, body []byte, limit int64) ([]byte, error) {
	p := pool.Get().(*pooledReader)
	defer pool.Put(p)
	p.src.Reset(body)
	defer p.src.Reset(nil)
	if err := p.reader.Reset(&p.src); err != nil {
		return nil, err
	}
	plain, err := readLimited(p.reader, len(body), limit)
	if err == nil && p.src.Len() > 0 {
		return nil, errWrongEncoding
	}
	return plain, err
}

// readLimited reads r to its end, or to errDecodedTooLarge at the first byte
// over limit. It never holds more than limit+1 bytes plus half of that while it
// grows. encoded is how many bytes r reads from.
func readLimited(r io.Reader, encoded int, limit int64) ([]byte, error) {
	const ratio = 4 // what JSON text usually gains
	plain := make([]byte, 0, growth(ratio*encoded, limit))
	for {
		if len(plain) == cap(plain) {
			grown := make([]byte, len(plain), growth(2*cap(plain), limit))
			copy(grown, plain)
			plain = grown
		}
		n, err := r.Read(plain[len(plain):cap(plain)])
		plain = plain[:len(plain)+n]
		switch {
		case int64(len(plain)) > limit:
			return nil, errDecodedTooLarge
		case err == io.EOF:
			return plain, nil
		case err != nil:
			return nil, err
		}
	}
}

// growth returns the capacity for a buffer that wants n bytes: at least a page's
// eighth, and at most the byte that shows that limit is exceeded.
func growth(n int, limit int64) int {
	n = max(n, 512)
	if int64(n) > limit {
		return int(limit) + 1
	}
	return n
}
