package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// replaced edits a bootstrap by its text. Each text must be there.
func replaced(oldnew ...string) func(*testing.T, []byte) []byte {
	return func(t *testing.T, b []byte) []byte {
		t.Helper()
		for i := 0; i < len(oldnew); i += 2 {
			if !bytes.Contains(b, []byte(oldnew[i])) {
				t.Fatalf("the bootstrap has no %q", oldnew[i])
			}
			b = bytes.ReplaceAll(b, []byte(oldnew[i]), []byte(oldnew[i+1]))
		}
		return b
	}
}

// beside adds a key under the line that says old.
func beside(old, key string) func(*testing.T, []byte) []byte {
	return func(t *testing.T, b []byte) []byte {
		t.Helper()
		line := regexp.MustCompile(`(?m)^( *)` + regexp.QuoteMeta(old) + `$`)
		if !line.Match(b) {
			t.Fatalf("the bootstrap has no line %q", old)
		}
		return line.ReplaceAll(b, []byte("${1}"+old+"\n${1}"+key))
	}
}

func both(first, second func(*testing.T, []byte) []byte) func(*testing.T, []byte) []byte {
	return func(t *testing.T, b []byte) []byte { t.Helper(); return second(t, first(t, b)) }
}

const (
	duplexMode  = "request_body_mode: FULL_DUPLEX_STREAMED"
	trailerMode = "request_trailer_mode: SEND"
)

// TestOriginalDst has Envoy connect to whatever address the filter names, so that
// workers need no endpoints file.
func TestOriginalDst(t *testing.T) {
	t.Parallel()
	for _, w := range ways() {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			s := newStack(t, stackConfig{envoyYAML: "attachment: original_dst\nbody_mode: " + w.body, yaml: "request: {end: " + w.end + "}"})
			for name, client := range map[string]*http.Client{"http1": http1(), "http2": http2()} {
				sessions := newConversations(name, "sim", 20)
				converse(t, client, s.gateway, sessions, 3)
				for _, c := range sessions {
					checkStayed(t, c)
				}
			}
			// What the client says of destinations changes nothing.
			home := newConversations("forger", "sim", 1)[0]
			if r, err := home.turn(http1(), s.gateway, "hello"); err != nil || r.status != http.StatusOK {
				t.Fatalf("%v, status %d", err, r.status)
			}
			for _, other := range s.workers {
				r, err := post(http1(), s.gateway, "/v1/completions", []byte(`{"model":"sim","prompt":"x","max_tokens":1}`), map[string]string{
					"X-Session-Id": home.id, "X-Envoy-Original-Dst-Host": other.address, "X-Gateway-Destination-Endpoint": other.address,
				})
				if err != nil || r.status != http.StatusOK || r.header.Get("X-Sim-Worker") != home.workers[0] {
					t.Errorf("%v, status %d from %q, want %q", err, r.status, r.header.Get("X-Sim-Worker"), home.workers[0])
				}
			}
			eventually(t, 10*time.Second, "no lease left", func() bool { return s.metric("mooring_leases") == 0 && s.metric("mooring_streams") == 0 })
			s.checkNothingLive()
		})
	}
}

// TestModesOfOtherGateways serves request body modes that are not generated and
// that somebody else's configuration may have.
func TestModesOfOtherGateways(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		edit   func(*testing.T, []byte) []byte
		inHand bool // the model can be read from the body
	}{
		{"STREAMED", replaced(duplexMode, "request_body_mode: STREAMED", trailerMode, "request_trailer_mode: SKIP"), false},
		{"STREAMED, eager", both(replaced(duplexMode, "request_body_mode: STREAMED", trailerMode, "request_trailer_mode: SKIP"),
			beside("message_timeout: 3s", "send_body_without_waiting_for_header_response: true")), true},
		{"BUFFERED_PARTIAL", replaced(duplexMode, "request_body_mode: BUFFERED_PARTIAL", trailerMode, "request_trailer_mode: SKIP"), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t, stackConfig{models: []string{"a", "b"}, yaml: "request: {model: {header: x-model}}", editBootstrap: tt.edit})
			for name, client := range map[string]*http.Client{"http1": http1(), "http2": http2()} {
				s.checkBodies(name, client, tt.inHand)
				// The model in a header: no body is needed, and it arrives whole.
				for _, size := range []int{0, 1, 70_000, 3 << 20} {
					body := strings.Repeat("0123456789abcde\n", size/16+1)[:size]
					r, err := send(client, http.MethodPost, s.gateway, "/debug/echo", strings.NewReader(body), map[string]string{"X-Model": "b", "X-Session-Id": "bytes"})
					if err != nil || r.status != http.StatusOK || !strings.Contains(string(r.body), digest(body)) {
						t.Errorf("%s, %d bytes: %v, status %d: %s", name, size, err, r.status, r.body)
					}
				}
			}
			eventually(t, 10*time.Second, "no lease left", func() bool { return s.metric("mooring_leases") == 0 && s.metric("mooring_streams") == 0 })
		})
	}
}

// checkBodies sends requests that name their model in the body.
func (s *stack) checkBodies(name string, client *http.Client, readable bool) {
	s.t.Helper()
	for i, model := range []string{"a", "b", "a"} {
		body := fmt.Sprintf(`{"pad":"%s","model":%q,"prompt":"x","max_tokens":1}`, strings.Repeat("x", 100_000*i), model)
		r, err := post(client, s.gateway, "/v1/completions", []byte(body), map[string]string{"X-Session-Id": name})
		if err != nil {
			s.t.Errorf("%s, %d bytes: %v", name, len(body), err)
			continue
		}
		if !readable {
			if why := (refusal{status: 400, message: "x-model"}).check(r); why != "" {
				s.t.Errorf("%s, %d bytes: %s; got %d %s", name, len(body), why, r.status, r.body)
			}
			continue
		}
		if worker := r.header.Get("X-Sim-Worker"); r.status != http.StatusOK || worker != s.workers[i%2].address {
			s.t.Errorf("%s, %d bytes: status %d from %q, want %q: %s", name, len(body), r.status, worker, s.workers[i%2].address, r.body)
		}
	}
}

// TestEndsByTheStream has leases end with their responses where there is no
// access log, in every body mode and with the response's body seen or not.
func TestEndsByTheStream(t *testing.T) {
	t.Parallel()
	edits := map[string]func(*testing.T, []byte) []byte{
		"headers and trailers": nil,
		"STREAMED":             beside("response_trailer_mode: SEND", "response_body_mode: STREAMED"),
		"FULL_DUPLEX_STREAMED": beside("response_trailer_mode: SEND", "response_body_mode: FULL_DUPLEX_STREAMED"),
	}
	for name, edit := range edits {
		for _, body := range []string{"full_duplex", "none", "buffered"} {
			if name == "FULL_DUPLEX_STREAMED" && body == "none" {
				continue // Envoy lets no mode be overridden where one is full duplex: no body could be pulled
			}
			t.Run(name+", "+body, func(t *testing.T) {
				t.Parallel() // mostly waiting
				s := newStack(t, stackConfig{models: []string{"a", "b"}, envoyYAML: "body_mode: " + body, yaml: "request: {end: stream, model: {header: x-model}}", editBootstrap: edit})
				s.checkEnds()
			})
		}
	}
}

// TestBothSourcesOfEndsTogether has the stream and the access log tell of every
// end: whichever comes first ends the lease, the other changes nothing.
func TestBothSourcesOfEndsTogether(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"access_log", "stream"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			s := newStack(t, stackConfig{
				models: []string{"a", "b"}, yaml: "request: {model: {header: x-model}, end: access_log}",
				editBootstrap: replaced("response_header_mode: SKIP", "response_header_mode: SEND", "response_trailer_mode: SKIP", "response_trailer_mode: SEND"),
			})
			if end == "stream" { // Envoy keeps what it has, the replica goes by the stream
				s.reconfigure("end: access_log", "end: stream")
			}
			s.checkEnds()
		})
	}
}

// checkEnds sends requests of all kinds: leases are held while responses stream
// and none is left afterwards.
func (s *stack) checkEnds() {
	s.t.Helper()
	clients := []*http.Client{http1(), http2()}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			model := []string{"a", "b"}[i%2]
			body := fmt.Sprintf(`{"model":%q,"prompt":"x","max_tokens":8,"stream":%v}`, model, i%3 == 0)
			r, err := post(clients[i%4/2], s.gateway, "/v1/completions", []byte(body), map[string]string{"X-Session-Id": fmt.Sprint(i)})
			if err != nil || r.status != http.StatusOK || r.header.Get("X-Sim-Worker") != s.workers[i%2].address {
				s.t.Errorf("%v, status %d from %q: %s", err, r.status, r.header.Get("X-Sim-Worker"), r.body)
			}
		})
	}
	wg.Wait()
	var streams []*stream
	for _, client := range clients {
		streams = append(streams, s.openStream(client), s.openStream(client))
	}
	if n := s.metric("mooring_leases"); n < 4 {
		s.t.Errorf("%v leases while 4 responses stream", n)
	}
	streams[0].resp.Body.Close() // a client that leaves
	for _, st := range streams[1:] {
		if got := st.outcome(); got != "200" {
			s.t.Errorf("a response: %s", got)
		}
	}
	eventually(s.t, 10*time.Second, "every gauge at 0", func() bool { return s.metric("mooring_leases") == 0 && s.metric("mooring_streams") == 0 })
	s.checkNothingLive()
}
