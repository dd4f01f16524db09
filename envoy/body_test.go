package envoy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"

	"mooring/envoy"
)

// slowBody hands out its pieces one per pause.
type slowBody struct {
	pieces, size int
	pause        time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.pieces == 0 {
		return 0, io.EOF
	}
	b.pieces--
	time.Sleep(b.pause) // the pace of the client's line is what is tested
	clear(p[:b.size])
	return b.size, nil
}

func TestBodyIsPulledWhenMooringAsksForIt(t *testing.T) {
	for _, end := range []envoy.End{envoy.AccessLog, envoy.Stream} {
		r := startRig(t, func(c *envoy.Config) { c.BodyMode, c.End = envoy.HeadersOnly, end })
		const size = 300_000
		a := r.send("/", bytes.NewReader(make([]byte, size)), "x-test", "pull", "x-test-pick", r.workers[1].address)
		if a.seen.Worker != "two" || a.seen.Body != size || a.seen.ContentLength != size {
			t.Errorf("end %d: got %d %q, %d bytes of %d, content-length %d", end, a.status, a.body, a.seen.Body, size, a.seen.ContentLength)
		}
		receive(t, r.ends, "the end of the stream")
	}
}

// An override that touches the response, or comes where the response is full
// duplex, is spurious: the request fails, it does not go on unpinned.
func TestOverrideOfTheResponse(t *testing.T) {
	tests := []struct {
		name, response string
		body           extprocv3.ProcessingMode_BodySendMode
		status         int
		details        string
	}{
		{"left alone", "DEFAULT", extprocv3.ProcessingMode_NONE, http.StatusOK, "via_upstream"},
		{"headers switched off", "SKIP", extprocv3.ProcessingMode_NONE, http.StatusServiceUnavailable, "unhandled_message"},
		{"full duplex response", "DEFAULT", extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED, http.StatusServiceUnavailable, "unhandled_message"},
	}
	for _, tt := range tests {
		r := startEditedRig(t, func(c *envoy.Config) { c.BodyMode, c.End = envoy.HeadersOnly, envoy.Stream }, func(b *bootstrapv3.Bootstrap) {
			tellDetails(b)
			editProcessor(b, func(p *extprocv3.ExternalProcessor) { p.ProcessingMode.ResponseBodyMode = tt.body })
		})
		a := r.send("/", strings.NewReader("{}"), "x-test", "pull", "x-test-pick", r.workers[1].address, "x-test-response", tt.response)
		if a.status != tt.status || a.header.Get("x-details") != tt.details {
			t.Errorf("%s: got %d, %s; want %d, %s", tt.name, a.status, a.header.Get("x-details"), tt.status, tt.details)
		}
	}
}

func TestSlowUploadIsNotCut(t *testing.T) {
	for _, mode := range []envoy.BodyMode{envoy.FullDuplex, envoy.HeadersOnly, envoy.Buffered} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			r := startRig(t, func(c *envoy.Config) { c.BodyMode, c.Deadline = mode, 50*time.Millisecond })
			for _, do := range []string{"pick", "pull"} {
				if do == "pull" && mode != envoy.HeadersOnly {
					continue
				}
				began := time.Now()
				req := r.request(t.Context(), "/", &slowBody{pieces: 15, size: 1000, pause: 100 * time.Millisecond}, "x-test", do, "x-test-pick", r.workers[0].address)
				req.ContentLength = 15_000
				resp, err := r.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("%s: got %d after %v", do, resp.StatusCode, time.Since(began))
				}
			}
		})
	}
}

// What Mooring passes on byte for byte keeps its length, and is whole.
func TestBodyKeepsItsLength(t *testing.T) {
	forEachWay(t, func(t *testing.T, r *rig) {
		const size = 700_000
		a := r.send("/", bytes.NewReader(make([]byte, size)), "x-test-pick", r.workers[1].address)
		if a.status != http.StatusOK || a.seen.Body != size || a.seen.ContentLength != size {
			t.Errorf("got %d, %d bytes, content-length %d; want %d", a.status, a.seen.Body, a.seen.ContentLength, size)
		}
	})
}

// A body that may be as long as Mooring takes one reaches it whole in buffered
// mode, where Envoy holds it.
func TestLongestBodyFitsEnvoysBuffer(t *testing.T) {
	const longest = 3 << 20
	r := startRig(t, func(c *envoy.Config) { c.BodyMode, c.MaxBodyBytes = envoy.Buffered, longest })
	for size, want := range map[int]int{longest: http.StatusOK, longest + 1: http.StatusOK, 2 * longest: http.StatusRequestEntityTooLarge} {
		if a := r.send("/", bytes.NewReader(make([]byte, size)), "x-test-pick", r.workers[1].address); a.status != want {
			t.Errorf("%d bytes: got %d, want %d", size, a.status, want)
		}
	}
}

func TestUpgradeGoesThroughOrIsRefused(t *testing.T) {
	forEachWay(t, func(t *testing.T, r *rig) {
		conn, err := net.DialTimeout("tcp", r.url[len("http://"):], bound)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(bound))
		fmt.Fprintf(conn, "GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nx-test-pick: %s\r\n\r\n", r.workers[1].address)
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.cfg.BodyMode == envoy.Buffered {
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("got %d", resp.StatusCode)
			}
			return
		}
		if resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %d", resp.StatusCode)
		}
		for range 3 {
			if _, err := io.WriteString(conn, "ping\n"); err != nil {
				t.Fatal(err)
			}
			if line, err := in.ReadString('\n'); err != nil || line != "two: ping\n" {
				t.Fatalf("got %q, %v", line, err)
			}
		}
		conn.Close()
		if e := r.entry(); e.GetCommonProperties().GetMetadata().GetFilterMetadata()["mooring"] == nil {
			t.Errorf("its entry says %v", e)
		}
	})
}
