package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// messages is how many messages Envoy has sent to the filter.
func (s *stack) messages() uint64 {
	s.t.Helper()
	stats, err := s.envoy.Stats(s.t.Context(), `ext_proc\.mooring\.stream_msgs_sent`)
	if err != nil || len(stats) != 1 {
		s.t.Fatalf("stats: %v, %v", stats, err)
	}
	for _, n := range stats {
		return n
	}
	return 0
}

// arrived is what a worker says that it received last for a session.
func (s *stack) arrived(w *simWorker, session string) (length, digest string) {
	s.t.Helper()
	resp, err := http.Get("http://" + w.address + "/debug/requests?limit=1&session=" + session)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Requests []struct {
			Headers    http.Header `json:"headers"`
			BodySHA256 string      `json:"body_sha256"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || len(answer.Requests) != 1 {
		s.t.Fatalf("received by %s: %v, %v", w.address, answer, err)
	}
	return answer.Requests[0].Headers.Get("Content-Length"), answer.Requests[0].BodySHA256
}

// TestBodyIsPulledOnlyWhenNeeded: with envoy.body_mode none the filter sees
// bodies only of requests that it cannot place by their headers, and then whole;
// the worker gets them with their length either way.
func TestBodyIsPulledOnlyWhenNeeded(t *testing.T) {
	t.Parallel()
	s := newStack(t, stackConfig{models: []string{"a", "b"}, envoyYAML: "body_mode: none", yaml: "request: {model: {header: x-model}}"})
	for name, client := range map[string]*http.Client{"http1": http1(), "http2": http2()} {
		for i, size := range []int{100, 70_000, 3 << 20} {
			for _, where := range []string{"header", "body"} {
				session := fmt.Sprintf("%s-%d-%s", name, size, where)
				w := s.workers[i%2]
				body := fmt.Sprintf(`{"pad":"%s","model":%q,"prompt":"x","max_tokens":1}`, strings.Repeat("x", size), w.model)
				header := map[string]string{"X-Session-Id": session}
				if where == "header" {
					header["X-Model"] = w.model
				}
				before := s.messages()
				r, err := post(client, s.gateway, "/v1/completions", []byte(body), header)
				if err != nil || r.status != http.StatusOK || r.header.Get("X-Sim-Worker") != w.address {
					t.Errorf("%s: %v, status %d from %q: %s", session, err, r.status, r.header.Get("X-Sim-Worker"), r.body)
					continue
				}
				n := s.messages() - before
				if where == "header" && n != 1 || where == "body" && n < 2 {
					t.Errorf("%s: %d messages to the filter", session, n)
				}
				if length, sum := s.arrived(w, session); sum != digest(body) || length != strconv.Itoa(len(body)) {
					t.Errorf("%s: the worker got content-length %q, sha256 %s; want %d, %s", session, length, sum, len(body), digest(body))
				}
			}
		}
	}
}

// TestRequestsOfUnusualShape meets, in every way of attachment, requests without
// a body where one is needed, with an empty one, with trailers, and that wait to
// be told to go on.
func TestRequestsOfUnusualShape(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			s := w.stack(t)
			for name, client := range map[string]*http.Client{"http1": http1(), "http2": http2()} {
				for _, method := range []string{http.MethodGet, http.MethodHead} {
					if r, err := send(client, method, s.gateway, "/v1/models", nil, map[string]string{"X-Model": "a"}); err != nil || r.status != http.StatusOK {
						t.Errorf("%s %s: %v, status %d: %s", name, method, err, r.status, r.body)
					}
				}
				// Chunked, and nothing in it: a request without a model goes to anybody.
				r, err := send(client, http.MethodPost, s.gateway, "/debug/echo", io.MultiReader(strings.NewReader("")), nil)
				if err != nil || r.status != http.StatusOK || !strings.Contains(string(r.body), digest("")) {
					t.Errorf("%s, empty chunked: %v, got %d %s", name, err, r.status, r.body)
				}
				s.checkTrailers(name, client)
			}
			s.checkContinue()
			eventually(t, 10*time.Second, "every gauge at 0", func() bool { return s.metric("mooring_leases") == 0 && s.metric("mooring_streams") == 0 })
		})
	}
}

// checkTrailers sends a body that trailers follow; Envoy drops them on the way to
// an HTTP/1.1 worker, the body must be whole.
func (s *stack) checkTrailers(name string, client *http.Client) {
	s.t.Helper()
	body := promptHead + promptTail
	req, err := http.NewRequest(http.MethodPost, "http://"+s.gateway+"/v1/completions", io.MultiReader(strings.NewReader(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-Session-Id", "trailers-"+name)
	req.Trailer = http.Header{"X-Sum": {"1"}}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Errorf("%s, trailers: %v", name, err)
		return
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Errorf("%s, trailers: status %d: %s", name, resp.StatusCode, text)
		return
	}
	if _, sum := s.arrived(s.workers[0], "trailers-"+name); sum != digest(body) {
		s.t.Errorf("%s, trailers: the worker got another body", name)
	}
}

// checkContinue sends the body only once it was asked for.
func (s *stack) checkContinue() {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.gateway)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(conn)
	body := promptHead + promptTail
	fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusContinue {
		s.t.Fatalf("expect: %v, %v", resp, err)
	}
	io.WriteString(conn, body)
	resp, err = http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Errorf("after 100: %v, %v", resp, err)
	}
}
