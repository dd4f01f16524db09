package envoy_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	processorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"google.golang.org/grpc/status"

	"mooring/envoy"
)

// endOf answers like a picker and tells how the stream ended.
func endOf(ends chan<- string) func(*session) error {
	return func(s *session) error {
		for {
			m, err := s.stream.Recv()
			if errors.Is(err, io.EOF) {
				ends <- fmt.Sprint("EOF, context done: ", s.stream.Context().Err() != nil)
				return nil
			}
			if err != nil {
				ends <- status.Code(err).String()
				return nil
			}
			if _, err := s.answer(m); err != nil {
				return err
			}
		}
	}
}

// With response bodies off there are three ways to see less or more of a
// response. What the end of the stream looks like in Go is a matter of timing,
// unless Envoy is told to close gracefully.
func TestEndOfAStreamWithoutResponseBodies(t *testing.T) {
	const send, skip = processorv3.ProcessingMode_SEND, processorv3.ProcessingMode_SKIP
	variants := []struct {
		name              string
		headers, trailers processorv3.ProcessingMode_HeaderSendMode
		atTheResponsesEnd bool
	}{
		{"nothing of the response", skip, skip, false},
		{"response headers", send, skip, false},
		{"response headers and trailers", send, send, true},
	}
	for _, graceful := range []bool{false, true} {
		for _, v := range variants {
			t.Run(fmt.Sprintf("%s, graceful %v", v.name, graceful), func(t *testing.T) {
				r := startEditedRig(t, nil, func(b *bootstrapv3.Bootstrap) {
					switchFlag(b, "envoy.reloadable_features.ext_proc_graceful_grpc_close", graceful)
					editProcessor(b, func(p *processorv3.ExternalProcessor) {
						p.ProcessingMode.ResponseHeaderMode, p.ProcessingMode.ResponseTrailerMode = v.headers, v.trailers
					})
				})
				ends := make(chan string, 1)
				r.play(endOf(ends))
				resp := r.open(t.Context(), strings.NewReader("{}"), r.workers[0])
				r.workers[0].say(t, "a")
				if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				how := ""
				if !v.atTheResponsesEnd {
					how = receive(t, ends, "the end of the stream during the response")
				} else if len(ends) > 0 {
					t.Error("the stream ended before the response")
				}
				close(r.workers[0].chunk)
				if text, err := io.ReadAll(resp.Body); err != nil || len(text) > 0 {
					t.Errorf("the rest of the response: %q, %v", text, err)
				}
				if how == "" {
					how = receive(t, ends, "the end of the stream")
				}
				checkEnd(t, graceful, how)
			})
		}
	}
}

// A client that leaves looks like any other end.
func TestAbortLooksLikeAnyEnd(t *testing.T) {
	for _, graceful := range []bool{false, true} {
		r := startEditedRig(t, func(c *envoy.Config) { c.End = envoy.Stream }, func(b *bootstrapv3.Bootstrap) {
			switchFlag(b, "envoy.reloadable_features.ext_proc_graceful_grpc_close", graceful)
		})
		ends := make(chan string, 1)
		r.play(endOf(ends))
		resp := r.open(t.Context(), strings.NewReader("{}"), r.workers[0])
		resp.Body.Close()
		checkEnd(t, graceful, receive(t, ends, "the end of the stream"))
	}
}

func checkEnd(t *testing.T, graceful bool, how string) {
	t.Helper()
	switch {
	case graceful && how != "EOF, context done: false":
		t.Errorf("a graceful end is %s, want EOF", how)
	case !graceful && how != "Canceled" && !strings.HasPrefix(how, "EOF"):
		t.Errorf("an end is %s, want Canceled or EOF", how)
	}
	t.Logf("graceful %v: %s", graceful, how)
}

// An OK in mid-response is Mooring's right way out: no client notices.
func TestOKDuringTheResponseHarmsNobody(t *testing.T) {
	for _, mode := range []envoy.BodyMode{envoy.FullDuplex, envoy.HeadersOnly, envoy.Buffered} {
		r := startRig(t, func(c *envoy.Config) { c.BodyMode, c.End = mode, envoy.Stream })
		leave, left := make(chan struct{}), make(chan struct{})
		r.keepOpen.Store(true)
		r.play(func(s *session) error {
			defer close(left)
			for {
				m, err := s.stream.Recv()
				if err != nil {
					return err
				}
				if _, err := s.answer(m); err != nil {
					return err
				}
				if m.GetResponseHeaders() != nil {
					<-leave
					return nil
				}
			}
		})
		resp := r.open(t.Context(), strings.NewReader("{}"), r.workers[0])
		r.workers[0].say(t, "before ")
		close(leave)
		receive(t, left, "the handler's return")
		eventually(t, "envoy has noticed", func() bool {
			const active = "cluster.mooring.upstream_rq_active"
			return r.stats(`cluster\.mooring\.upstream_rq_active`)[active] == 0
		})
		r.workers[0].say(t, "after")
		close(r.workers[0].chunk)
		if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "before after" {
			t.Errorf("mode %d: got %q, %v", mode, text, err)
		}
	}
}
