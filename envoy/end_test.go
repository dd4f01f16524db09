package envoy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"

	"mooring/envoy"
)

// The entry by which a lease ends.
func TestAccessLogEntrySaysWhatMooringSaid(t *testing.T) {
	forEachWay(t, func(t *testing.T, r *rig) {
		r.post("x-test-pick", r.workers[1].address, "x-request-id", "the client's own")
		s := receive(t, r.starts, "the stream")
		e := r.entry()
		common := e.GetCommonProperties()
		mooring := common.GetMetadata().GetFilterMetadata()["mooring"].GetFields()
		lb := common.GetMetadata().GetFilterMetadata()["envoy.lb"].GetFields()
		for name, got := range map[string]string{
			"replica":    mooring["replica"].GetStringValue(),
			"lease":      mooring["lease"].GetStringValue(),
			"worker":     mooring["worker"].GetStringValue(),
			"reason":     mooring["reason"].GetStringValue(),
			"picked":     lb["x-gateway-destination-endpoint"].GetStringValue(),
			"served":     lb["x-gateway-destination-endpoint-served"].GetStringValue(),
			"request id": e.GetRequest().GetRequestId(),
			"details":    e.GetResponse().GetResponseCodeDetails(),
		} {
			want := map[string]string{
				"replica": "18446744073709551615", "lease": "42", "worker": "7", "reason": "bound",
				"picked": r.workers[1].address, "served": r.workers[1].address, "request id": "the client's own", "details": "via_upstream",
			}[name]
			if name == "served" && r.cfg.Attachment == envoy.OriginalDst {
				want = "" // only override_host says so; the upstream address does in both
			}
			if got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if got := upstreamOf(common); got != r.workers[1].address {
			t.Errorf("upstream address %s, want %s", got, r.workers[1].address)
		}
		if common.GetResponseFlags() != nil || common.GetDuration().AsDuration() <= 0 || e.GetResponse().GetResponseCode().GetValue() != 200 {
			t.Errorf("flags {%v}, duration %v, code %v", common.GetResponseFlags(), common.GetDuration().AsDuration(), e.GetResponse().GetResponseCode())
		}
		sameRequest(t, s, e)
	})
}

func upstreamOf(c *logdatav3.AccessLogCommon) string {
	a := c.GetUpstreamRemoteAddress().GetSocketAddress()
	if a == nil {
		return ""
	}
	return joinHostPort(a.GetAddress(), a.GetPortValue())
}

// sameRequest checks that stream and entry name their request alike: an entry
// without metadata has nothing else to be joined by.
func sameRequest(t *testing.T, s start, e *logdatav3.HTTPAccessLogEntry) {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s.attributes["request.time"].GetStringValue())
	if err != nil {
		t.Fatal(err)
	}
	if began := e.GetCommonProperties().GetStartTime().AsTime(); !began.Equal(at) {
		t.Errorf("request.time is %v, start_time %v", at, began)
	}
	id := e.GetRequest().GetRequestId()
	if got := s.attributes["request.id"].GetStringValue(); got != id || s.headers["x-request-id"] != id {
		t.Errorf("request id: attribute %q, header %q, access log %q", got, s.headers["x-request-id"], id)
	}
}

func TestClientThatLeavesBeforeThePickHasAnEntry(t *testing.T) {
	forEachWay(t, func(t *testing.T, r *rig) {
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		req := r.request(ctx, "/", strings.NewReader("{}"), "x-test", "hang")
		go func() { _, err := r.client.Do(req); left <- err }()
		s := receive(t, r.starts, "the stream")
		leave()
		if err := receive(t, left, "the client's error"); err == nil {
			t.Fatal("the client got an answer")
		}
		e := r.entry()
		sameRequest(t, s, e)
		c := e.GetCommonProperties()
		if !c.GetResponseFlags().GetDownstreamConnectionTermination() || c.GetMetadata().GetFilterMetadata()["mooring"] != nil {
			t.Errorf("flags {%v}, metadata {%v}", c.GetResponseFlags(), c.GetMetadata())
		}
		receive(t, r.ends, "the end of the stream")
	})
}

func TestClientThatLeavesDuringTheResponseHasAnEntry(t *testing.T) {
	r := startRig(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	resp := r.open(ctx, nil, r.workers[0])
	r.workers[0].say(t, "a")
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	leave()
	resp.Body.Close()
	e := r.entry()
	if !e.GetCommonProperties().GetResponseFlags().GetDownstreamConnectionTermination() || e.GetResponse().GetResponseBodyBytes() != 1 {
		t.Errorf("flags {%v}, response {%v}", e.GetCommonProperties().GetResponseFlags(), e.GetResponse())
	}
}

// With ends by the access log the ext_proc stream is over before the response
// is, so that nothing that happens to Mooring can cut it; with ends by the
// stream it is over when the response is.
func TestWhenTheStreamEnds(t *testing.T) {
	for _, mode := range []envoy.BodyMode{envoy.FullDuplex, envoy.HeadersOnly, envoy.Buffered} {
		for _, end := range []envoy.End{envoy.AccessLog, envoy.Stream} {
			t.Run(fmt.Sprintf("body %d, end %d", mode, end), func(t *testing.T) {
				r := startRig(t, func(c *envoy.Config) { c.BodyMode, c.End = mode, end })
				r.keepOpen.Store(end == envoy.Stream)
				resp := r.open(t.Context(), strings.NewReader("{}"), r.workers[0])
				r.workers[0].say(t, "a")
				if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				if end == envoy.AccessLog {
					receive(t, r.ends, "the end of the stream during the response")
				}
				if len(r.ends) > 0 {
					t.Error("the stream ended before the response")
				}
				close(r.workers[0].chunk)
				if end == envoy.Stream {
					receive(t, r.ends, "the end of the stream after the response")
				} else {
					r.entry()
				}
			})
		}
	}
}

// In buffered mode Envoy does not end the stream by itself: a server that waits
// for it holds the response to its own life.
func TestBufferedStreamIsTheServersToEnd(t *testing.T) {
	r := startRig(t, func(c *envoy.Config) { c.BodyMode = envoy.Buffered })
	r.keepOpen.Store(true)
	resp := r.open(t.Context(), strings.NewReader("{}"), r.workers[0])
	r.workers[0].say(t, "a")
	r.server.Stop()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the response survived with %q", body)
	}
}

func TestWorkerThatDiesDuringTheResponseIsToldApart(t *testing.T) {
	r := startRig(t, nil)
	resp := r.open(t.Context(), nil, r.workers[0])
	r.workers[0].say(t, "a")
	r.workers[0].CloseClientConnections()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the client does not notice")
	}
	// A chunked response that breaks off is a protocol error to Envoy, not the
	// end of a connection.
	if e := r.entry(); !e.GetCommonProperties().GetResponseFlags().GetUpstreamProtocolError() || e.GetResponse().GetResponseCode().GetValue() != http.StatusOK {
		t.Errorf("flags {%v}, response {%v}", e.GetCommonProperties().GetResponseFlags(), e.GetResponse())
	}
}
