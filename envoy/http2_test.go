package envoy_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"mooring/envoy"
)

func TestHTTP2Client(t *testing.T) {
	forEachWay(t, func(t *testing.T, r *rig) {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		transport := &http.Transport{Protocols: &protocols}
		t.Cleanup(transport.CloseIdleConnections)
		r.client = &http.Client{Transport: transport, Timeout: bound}

		const size = 300_000
		for _, body := range []io.Reader{bytes.NewReader(make([]byte, size)), io.MultiReader(bytes.NewReader(make([]byte, size)))} {
			a := r.send("/", body, "x-test-pick", r.workers[1].address)
			if a.seen.Worker != "two" || a.seen.Body != size {
				t.Errorf("got %d from %q with %d bytes", a.status, a.seen.Worker, a.seen.Body)
			}
			r.entry()
		}
		// A client that leaves resets its stream; the connection stays.
		ctx, leave := context.WithCancel(t.Context())
		resp := r.open(ctx, nil, r.workers[0])
		r.workers[0].say(t, "a")
		if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		leave()
		if f := r.entry().GetCommonProperties().GetResponseFlags(); !f.GetDownstreamRemoteReset() && !f.GetDownstreamConnectionTermination() {
			t.Errorf("flags {%v}", f)
		}
		if a := r.get("x-test-pick", r.workers[2].address); a.seen.Worker != "three" {
			t.Errorf("got %d from %q", a.status, a.seen.Worker)
		}
	})
}

// Two listeners ask their own Mooring each.
func TestEveryListenerAsksItsOwnMooring(t *testing.T) {
	r, _ := startRigWithChild(t, func(c *envoy.Config) {
		c.Listeners = append(c.Listeners, envoy.Listener{Name: "other", Address: "127.0.0.1:0", ExtProc: "127.0.0.1:1"})
	})
	if a := r.post("x-test-pick", r.workers[0].address); a.seen.Worker != "one" {
		t.Errorf("got %d from %q", a.status, a.seen.Worker)
	}
	address, _ := r.envoy.Listener("other")
	r.url = "http://" + address
	if a := r.post("x-test-pick", r.workers[0].address); a.status != http.StatusServiceUnavailable {
		t.Errorf("without a Mooring: got %d from %q", a.status, a.seen.Worker)
	}
}
