package routing

import (
	"bytes"
	stdflate "compress/flate"
	stdgzip "compress/gzip"
	stdzlib "compress/zlib"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
)

const mib = 1 << 20

// encode applies one encoding; "raw deflate" is deflate without zlib's frame.
func encode(tb testing.TB, name string, plain []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch name {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw deflate":
		w, err = flate.NewWriter(&b, flate.DefaultCompression)
	case "br":
		w = brotli.NewWriterLevel(&b, brotli.BestSpeed)
	case "zstd":
		w, err = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	}
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Write(plain); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestDecodeBodyUndoesWhatTheHeaderSays(t *testing.T) {
	plain := chatBody(100 << 10)
	enc := func(names ...string) []byte {
		body := plain
		for _, name := range names {
			body = encode(t, name, body)
		}
		return body
	}
	tests := []struct {
		header string
		body   []byte
	}{
		{"", plain},
		{"identity", plain},
		{" , identity,\t", plain},
		{"gzip", enc("gzip")},
		{"GZip", enc("gzip")},
		{"x-gzip", enc("gzip")},
		{"gzip, identity", enc("gzip")},
		{"deflate", enc("deflate")},
		{"deflate", enc("raw deflate")},
		{"br", enc("br")},
		{"zstd", enc("zstd")},
		{"gzip, br", enc("gzip", "br")},
		{"zstd,identity,deflate", enc("zstd", "raw deflate")},
		{"gzip,gzip", enc("gzip", "gzip")},
		{"gzip", append(encode(t, "gzip", plain[:999]), encode(t, "gzip", plain[999:])...)}, // two members make one body (RFC 1952)
		{"zstd", append(encode(t, "zstd", plain[:999]), encode(t, "zstd", plain[999:])...)}, // so do two frames (RFC 8878)
	}
	for _, tt := range tests {
		t.Run(tt.header, func(t *testing.T) {
			before := bytes.Clone(tt.body)
			got, err := decodeBody(tt.header, tt.body, mib)
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("got %d bytes, %v; want the %d that were encoded", len(got), err, len(plain))
			}
			if !bytes.Equal(tt.body, before) {
				t.Error("the body was changed")
			}
		})
	}
}

func TestDecodeBodyOfNothing(t *testing.T) {
	for _, header := range []string{"", "gzip", "br", "snappy"} {
		if got, err := decodeBody(header, nil, mib); err != nil || len(got) != 0 {
			t.Errorf("%q: got %q, %v", header, got, err)
		}
	}
	for _, name := range []string{"gzip", "deflate", "raw deflate", "br", "zstd"} {
		got, err := decodeBody(strings.TrimPrefix(name, "raw "), encode(t, name, nil), mib)
		if err != nil || len(got) != 0 {
			t.Errorf("%s of nothing: got %q, %v", name, got, err)
		}
	}
}

func TestDecodeBodyRefuses(t *testing.T) {
	plain := []byte(`{"model":"secret"}`)
	cut := func(name string) []byte { e := encode(t, name, plain); return e[:len(e)-1] }
	tail := func(name string) []byte { return append(encode(t, name, plain), plain...) }
	broken := func(name string) []byte { e := encode(t, name, plain); e[len(e)-1] ^= 1; return e }
	tests := []struct {
		name, header string
		body         []byte
		kind         error
		want         string
	}{
		{"plain as gzip", "gzip", plain, errWrongEncoding, "body is not what its content-encoding says: gzip"},
		{"plain as deflate", "deflate", plain, errWrongEncoding, "body is not what its content-encoding says: deflate"},
		{"plain as br", "br", plain, errWrongEncoding, "body is not what its content-encoding says: br"},
		{"plain as zstd", "zstd", plain, errWrongEncoding, "body is not what its content-encoding says: zstd"},
		{"gzip as zstd", "zstd", encode(t, "gzip", plain), errWrongEncoding, "body is not what its content-encoding says: zstd"},
		{"list in the wrong order", "br, gzip", encode(t, "br", encode(t, "gzip", plain)), errWrongEncoding, "body is not what its content-encoding says: gzip"},
		{"cut gzip", "gzip", cut("gzip"), errWrongEncoding, ""},
		{"cut deflate", "deflate", cut("deflate"), errWrongEncoding, ""},
		{"cut raw deflate", "deflate", cut("raw deflate"), errWrongEncoding, ""},
		{"cut br", "br", cut("br"), errWrongEncoding, ""},
		{"cut zstd", "zstd", cut("zstd"), errWrongEncoding, ""},
		{"gzip's checksum", "gzip", broken("gzip"), errWrongEncoding, ""},
		{"zlib's checksum", "deflate", broken("deflate"), errWrongEncoding, ""},
		{"zstd's checksum", "zstd", broken("zstd"), errWrongEncoding, ""},
		{"text after gzip", "gzip", tail("gzip"), errWrongEncoding, ""},
		{"text after deflate", "deflate", tail("deflate"), errWrongEncoding, ""},
		{"text after raw deflate", "deflate", tail("raw deflate"), errWrongEncoding, ""},
		{"text after br", "br", tail("br"), errWrongEncoding, ""},
		{"text after zstd", "zstd", tail("zstd"), errWrongEncoding, ""},
		{"much text after br", "br", append(encode(t, "br", plain), make([]byte, 1<<17)...), errWrongEncoding, ""},
		{"only zlib's header", "deflate", []byte{0x78, 0x9c}, errWrongEncoding, ""},
		{"zlib with a dictionary", "deflate", []byte{0x78, 0xbb, 0, 0, 0, 1, 3, 0, 0, 0, 0, 1}, errWrongEncoding, ""},
		{"unknown", "snappy", plain, errUnknownEncoding, `content-encoding is not known here: "snappy"; gzip, deflate, br, zstd and identity are`},
		{"unknown beside a known one", "gzip, aes128gcm", plain, errUnknownEncoding, `content-encoding is not known here: "aes128gcm"; gzip, deflate, br, zstd and identity are`},
		{"unknown and endless", strings.Repeat("x", 1<<16), plain, errUnknownEncoding, `content-encoding is not known here: "` + strings.Repeat("x", 128) + `..."; gzip, deflate, br, zstd and identity are`},
		{"three encodings", "gzip, gzip, gzip", plain, errUnknownEncoding, "content-encoding is not known here: more than 2, one over the other"},
		{"zstd with a window of 16 MiB", "zstd", zstdFrame(14), errDecodedTooLarge, "body is too large after decoding from zstd: its window is over 8388608 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeBody(tt.header, tt.body, mib)
			if got != nil || !errors.Is(err, tt.kind) || tt.want != "" && err.Error() != tt.want {
				t.Errorf("got %q, %v; want %v %s", got, err, tt.kind, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%v: quotes the body", err)
			}
		})
	}
	if got, err := decodeBody("zstd", zstdFrame(13), mib); err != nil || string(got) != "x" {
		t.Errorf("zstd with a window of 8 MiB: got %q, %v", got, err)
	}
}

// zstdFrame returns a frame of the text x that asks for a window of 2^(10+exponent) bytes.
func zstdFrame(exponent byte) []byte {
	return []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, exponent << 3, 1<<3 | 1, 0, 0, 'x'}
}

func TestDecodeBodyKeepsItsLimit(t *testing.T) {
	const limit = 10000
	for _, name := range []string{"identity", "gzip", "deflate", "raw deflate", "br", "zstd"} {
		for _, size := range []int{limit - 1, limit, limit + 1} {
			plain := bytes.Repeat([]byte("a"), size)
			body := plain
			if name != "identity" {
				body = encode(t, name, plain)
			}
			got, err := decodeBody(strings.TrimPrefix(name, "raw "), body, limit)
			if size > limit {
				if !errors.Is(err, errDecodedTooLarge) || !strings.Contains(err.Error(), "at most 10000 bytes") {
					t.Errorf("%s of %d bytes: got %v, want too large", name, size, err)
				}
			} else if err != nil || len(got) != size {
				t.Errorf("%s of %d bytes: got %d, %v", name, size, len(got), err)
			}
		}
	}
	if got, err := decodeBody("gzip", encode(t, "gzip", []byte("a")), math.MaxInt64); err != nil || string(got) != "a" {
		t.Errorf("with the largest limit: got %q, %v", got, err)
	}
}

// Small bodies that expand to as much as a gibibyte cost what the limit and, for
// zstd, the window allow.
func TestDecodeBodyStopsBombs(t *testing.T) {
	const limit, repeats = 1 * mib, 128
	zeros := make([]byte, 8*mib)
	gzipped := bytes.Repeat(encode(t, "gzip", zeros), repeats)
	bombs := []struct {
		header string
		body   []byte
	}{
		{"gzip", gzipped[:limit]},
		{"gzip, gzip", encode(t, "gzip", gzipped)},
		{"gzip, zstd", encode(t, "zstd", gzipped)},
		{"zstd", bytes.Repeat(encode(t, "zstd", zeros), repeats)},
		{"br", encode(t, "br", make([]byte, 64*mib))},
		{"deflate", encode(t, "deflate", make([]byte, 32*mib))},
		{"gzip, br", encode(t, "br", bytes.Repeat(encode(t, "gzip", nil), 1<<17))}, // its middle is large, its end is empty
	}
	for _, bomb := range bombs {
		var err error
		const most = 20 * mib
		used := allocated(func() { _, err = decodeBody(bomb.header, bomb.body, limit) })
		if !errors.Is(err, errDecodedTooLarge) {
			t.Errorf("%s, %d bytes: got %v, want too large", bomb.header, len(bomb.body), err)
		}
		if used > most {
			t.Errorf("%s, %d bytes: took %d bytes of memory, want at most %d", bomb.header, len(bomb.body), used, most)
		}
	}
}

// A reader that failed on one body serves the next one from the pool.
func TestDecodeBodyConcurrently(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	names := []string{"gzip", "deflate", "br", "zstd"}
	var wg sync.WaitGroup
	for g := range 8 {
		name := names[g%len(names)]
		plain := bytes.Repeat(fmt.Appendf(nil, "body of %d. ", g), 5000)
		body := encode(t, name, plain)
		wg.Go(func() {
			for i := range 50 {
				if got, err := decodeBody(name, body, mib); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("%s: got %d bytes, %v", name, len(got), err)
				}
				if _, err := decodeBody(name, body[:len(body)/2+i%4], mib); !errors.Is(err, errWrongEncoding) {
					t.Errorf("%s, half of it: got %v", name, err)
				}
				if _, err := decodeBody(name, body, 1000); !errors.Is(err, errDecodedTooLarge) {
					t.Errorf("%s, over the limit: got %v", name, err)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzDecodeBody holds decodeBody to its limit and its errors, and compares it
// with the standard library for what that reads.
func FuzzDecodeBody(f *testing.F) {
	plain := []byte(`{"model":"m","messages":[{"role":"user","content":"hi hi hi hi hi hi"}]}`)
	for _, name := range []string{"gzip", "deflate", "raw deflate", "br", "zstd"} {
		f.Add(strings.TrimPrefix(name, "raw "), encode(f, name, plain))
	}
	f.Add("gzip, br", encode(f, "br", encode(f, "gzip", plain)))
	f.Add("identity", plain)
	f.Add("gzip", append(encode(f, "gzip", plain), encode(f, "gzip", nil)...))
	f.Add("deflate", append(encode(f, "deflate", plain), "tail"...))
	f.Add("zstd", zstdFrame(13))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		const limit = 1 << 16
		before := bytes.Clone(body)
		got, err := decodeBody(header, body, limit)
		if !bytes.Equal(body, before) {
			t.Fatalf("the body was changed from %q to %q", before, body)
		}
		if len(got) > limit {
			t.Fatalf("%d bytes, over the limit", len(got))
		}
		tooLarge := errors.Is(err, errDecodedTooLarge)
		if err != nil && !tooLarge && !errors.Is(err, errUnknownEncoding) && !errors.Is(err, errWrongEncoding) {
			t.Fatalf("error of no kind: %v", err)
		}
		if len(body) == 0 || tooLarge || header != "gzip" && header != "deflate" {
			return
		}
		if want, wantErr := naiveDecode(header, body); (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%s %q: got %q, %v; want %q, %v", header, body, got, err, want, wantErr)
		}
	})
}

func naiveDecode(name string, body []byte) ([]byte, error) {
	src := bytes.NewReader(body)
	var r io.Reader
	var err error
	if name == "gzip" {
		r, err = stdgzip.NewReader(src)
	} else if r, err = stdzlib.NewReader(src); errors.Is(err, stdzlib.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		src.Reset(body)
		r, err = stdflate.NewReader(src), nil
	}
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(r)
	if err == nil && src.Len() > 0 {
		err = errWrongEncoding
	}
	return plain, err
}

func BenchmarkDecodeBody(b *testing.B) {
	for _, size := range []int{2 << 10, 64 << 10, 1 << 20} {
		plain := chatBody(size)
		for _, name := range []string{"gzip", "deflate", "br", "zstd"} {
			body := encode(b, name, plain)
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(plain)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := decodeBody(name, body, 16*mib); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
