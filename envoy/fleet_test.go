package envoy_test

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"mooring/envoy"
)

func joinHostPort(host string, port uint32) string {
	return net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))
}

func TestWorkerThatAppearsAndWorkerThatGoes(t *testing.T) {
	r := startRig(t, nil)
	fourth := startWorker(t, "four")
	if a := r.get("x-test-pick", fourth.address); a.status != http.StatusServiceUnavailable {
		t.Errorf("before it is in the file: %d", a.status)
	}
	began := time.Now()
	if err := envoy.WriteEndpoints(r.cfg.EndpointsFile, r.view(append(r.workers[:3:3], fourth)...)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a worker that is in the file is served", func() bool {
		return r.get("x-test-pick", fourth.address).seen.Worker == "four"
	})
	took := time.Since(began)
	t.Logf("a new worker was served %v after its write", took)
	if took > time.Second {
		t.Errorf("a new worker was served only %v after its write: Mooring picks it after a second", took)
	}

	// A response that streams outlives its worker's removal.
	resp := r.open(t.Context(), nil, fourth)
	fourth.say(t, "before ")
	if err := envoy.WriteEndpoints(r.cfg.EndpointsFile, r.view(r.workers...)); err != nil {
		t.Fatal(err)
	}
	r.waitForHosts(3)
	if a := r.get("x-test-pick", fourth.address); a.status != http.StatusServiceUnavailable {
		t.Errorf("after its removal: %d from %q", a.status, a.seen.Worker)
	}
	fourth.say(t, "after")
	close(fourth.chunk)
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "before after" {
		t.Errorf("the client got %q, %v", body, err)
	}
}

func TestEveryWorkerMayGo(t *testing.T) {
	r := startRig(t, nil)
	if err := envoy.WriteEndpoints(r.cfg.EndpointsFile, r.view()); err != nil {
		t.Fatal(err)
	}
	r.waitForHosts(0)
	if a := r.get("x-test-pick", r.workers[0].address); a.status != http.StatusServiceUnavailable {
		t.Errorf("got %d from %q", a.status, a.seen.Worker)
	}
	if err := envoy.WriteEndpoints(r.cfg.EndpointsFile, r.view(r.workers[0])); err != nil {
		t.Fatal(err)
	}
	r.waitForHosts(1)
	if a := r.get("x-test-pick", r.workers[0].address); a.seen.Worker != "one" {
		t.Errorf("got %d from %q", a.status, a.seen.Worker)
	}
	if rejected := r.stats(`cluster\.mooring_workers\.update_(rejected|failure)`); rejected["cluster.mooring_workers.update_rejected"] != 0 {
		t.Errorf("refused updates: %v", rejected)
	}
}
