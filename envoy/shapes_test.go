package envoy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"mooring/envoy"
)

// recorded notes the kinds of the messages of every stream, and picks.
func recorded(kinds chan<- string) func(*session) error {
	return func(s *session) error {
		var seen []string
		defer func() { kinds <- strings.Join(seen, " ") }()
		for {
			m, err := s.stream.Recv()
			if err != nil {
				return nil
			}
			switch {
			case m.GetRequestHeaders() != nil:
				seen = append(seen, fmt.Sprintf("headers(%v)", m.GetRequestHeaders().GetEndOfStream()))
			case m.GetRequestBody() != nil:
				seen = append(seen, fmt.Sprintf("body(%d,%v)", len(m.GetRequestBody().GetBody()), m.GetRequestBody().GetEndOfStream()))
			case m.GetRequestTrailers() != nil:
				seen = append(seen, "trailers")
			}
			if done, err := s.answer(m); done || err != nil {
				return err
			}
		}
	}
}

// What Mooring is shown of requests of unusual shapes, in each body mode; true:
// the end of the stream was said.
func TestShapesOfRequests(t *testing.T) {
	withTrailers := func(r *rig) *http.Request {
		req := r.request(t.Context(), "/", io.MultiReader(strings.NewReader("{}")), "x-test-pick", r.workers[0].address)
		req.Trailer = http.Header{"X-Sum": {"1"}}
		return req
	}
	tests := []struct {
		name string
		make func(r *rig) *http.Request
		want map[envoy.BodyMode]string
	}{
		{"GET", func(r *rig) *http.Request {
			return r.request(t.Context(), "/", nil, "x-test-pick", r.workers[0].address)
		},
			map[envoy.BodyMode]string{envoy.FullDuplex: "headers(true)", envoy.HeadersOnly: "headers(true)", envoy.Buffered: "headers(true)"}},
		{"HEAD", func(r *rig) *http.Request {
			req := r.request(t.Context(), "/", nil, "x-test-pick", r.workers[0].address)
			req.Method = http.MethodHead
			return req
		}, map[envoy.BodyMode]string{envoy.FullDuplex: "headers(true)", envoy.HeadersOnly: "headers(true)", envoy.Buffered: "headers(true)"}},
		{"empty chunked POST", func(r *rig) *http.Request {
			req := r.request(t.Context(), "/", io.MultiReader(strings.NewReader("")), "x-test-pick", r.workers[0].address)
			req.ContentLength = -1
			return req
		}, map[envoy.BodyMode]string{envoy.FullDuplex: "headers(false) body(0,true)", envoy.HeadersOnly: "headers(false)", envoy.Buffered: "headers(false) body(0,true)"}},
		{"trailers over HTTP/1.1, which Envoy drops", withTrailers,
			map[envoy.BodyMode]string{envoy.FullDuplex: "headers(false) body(2,false) body(0,true)", envoy.HeadersOnly: "headers(false)", envoy.Buffered: "headers(false) body(2,true)"}},
		{"trailers over HTTP/2", func(r *rig) *http.Request {
			req := withTrailers(r)
			req.Header.Set("x-over", "HTTP/2")
			return req
		}, map[envoy.BodyMode]string{envoy.FullDuplex: "headers(false) body(2,false) trailers", envoy.HeadersOnly: "headers(false)", envoy.Buffered: "headers(false) body(2,false)"}},
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	for _, mode := range []envoy.BodyMode{envoy.FullDuplex, envoy.HeadersOnly, envoy.Buffered} {
		r := startRig(t, func(c *envoy.Config) { c.BodyMode = mode })
		kinds := make(chan string, 1)
		r.play(recorded(kinds))
		for _, tt := range tests {
			req := tt.make(r)
			client := r.client
			if req.Header.Get("x-over") != "" {
				client = &http.Client{Transport: transport, Timeout: bound}
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatalf("mode %d, %s: %v", mode, tt.name, err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if got := receive(t, kinds, "the end of the stream"); resp.StatusCode != http.StatusOK || got != tt.want[mode] {
				t.Errorf("mode %d, %s: got %d %s, messages %q, want %q", mode, tt.name, resp.StatusCode, text, got, tt.want[mode])
			}
		}
	}
}

// A client that waits to be told to go on is told so by Envoy itself, in each
// mode, and its body is not lost.
func TestExpect100Continue(t *testing.T) {
	forEachWay(t, func(t *testing.T, r *rig) {
		conn, err := net.DialTimeout("tcp", r.url[len("http://"):], bound)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(bound))
		in := bufio.NewReader(conn)
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\nx-test-pick: %s\r\n\r\n", r.workers[1].address)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != http.StatusContinue {
			t.Fatalf("got %v, %v", resp, err)
		}
		io.WriteString(conn, "{}")
		resp, err = http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(text), `"Body":2,`) {
			t.Errorf("got %d %s", resp.StatusCode, text)
		}
	})
}

// Early hints of a worker are no response: the final one arrives, and Mooring's
// stream is not thrown off.
func TestEarlyHints(t *testing.T) {
	for _, end := range []envoy.End{envoy.AccessLog, envoy.Stream} {
		r := startRig(t, func(c *envoy.Config) { c.End = end })
		hints := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { hints++; return nil },
		})
		for range 2 {
			resp, err := r.client.Do(r.request(context.WithoutCancel(ctx), "/hints", nil, "x-test-pick", r.workers[0].address))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK || string(text) != "{}" {
				t.Errorf("end %d: got %d %q, %v", end, resp.StatusCode, text, err)
			}
		}
		if hints > 0 {
			t.Errorf("end %d: %d hints came through: Envoy 1.40.0 keeps them to itself", end, hints)
		}
	}
}
