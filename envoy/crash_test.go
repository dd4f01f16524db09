package envoy_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"

	"mooring/envoy"
)

// startChild starts a picker in a process of its own, to be killed by the test.
func startChild(t *testing.T, address string) *exec.Cmd {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childPicker+"="+address)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(child) })
	socket := strings.TrimPrefix(address, "unix://")
	eventually(t, "the child listens", func() bool { _, err := os.Stat(socket); return err == nil })
	return child
}

func kill(child *exec.Cmd) {
	child.Process.Kill()
	child.Wait()
}

func startRigWithChild(t *testing.T, change func(*envoy.Config)) (*rig, *exec.Cmd) {
	return startEditedRigWithChild(t, change, nil)
}

func startEditedRigWithChild(t *testing.T, change func(*envoy.Config), edit func(*bootstrapv3.Bootstrap)) (*rig, *exec.Cmd) {
	address := "unix://" + filepath.Join(t.TempDir(), "s")
	child := startChild(t, address)
	return startEditedRig(t, func(c *envoy.Config) {
		c.Listeners[0].ExtProc = address
		if change != nil {
			change(c)
		}
	}, edit), child
}

func TestKillDuringTheResponseHarmsNobody(t *testing.T) {
	for _, mode := range []envoy.BodyMode{envoy.FullDuplex, envoy.HeadersOnly, envoy.Buffered} {
		r, child := startRigWithChild(t, func(c *envoy.Config) { c.BodyMode = mode })
		resp := r.open(t.Context(), bytes.NewReader(make([]byte, 200_000)), r.workers[0])
		want := strings.Repeat("token ", 1000)
		r.workers[0].say(t, want)
		eventually(t, "mooring's part has ended", func() bool { // on a busy machine some time after the response began
			return r.stats(`ext_proc\.mooring\.streams_closed`)["http.in.ext_proc.mooring.streams_closed"] == 1
		})
		kill(child)
		eventually(t, "envoy has noticed", func() bool {
			return r.stats(`cluster\.mooring\.upstream_cx_active`)["cluster.mooring.upstream_cx_active"] == 0
		})
		r.workers[0].say(t, want)
		close(r.workers[0].chunk)
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != want+want {
			t.Errorf("mode %d: the client got %d bytes of %d, %v", mode, len(body), 2*len(want), err)
		}
	}
}

func TestKillBeforeThePickIsAnError(t *testing.T) {
	for _, mode := range []envoy.BodyMode{envoy.FullDuplex, envoy.HeadersOnly, envoy.Buffered} {
		r, child := startRigWithChild(t, func(c *envoy.Config) { c.BodyMode = mode })
		got := make(chan *http.Response, 1)
		req := r.request(t.Context(), "/", strings.NewReader("{}"), "x-test", "hang", "x-test-pick", r.workers[0].address)
		go func() {
			resp, err := r.client.Do(req)
			if err != nil {
				t.Error(err)
			}
			got <- resp
		}()
		eventually(t, "the stream is open", func() bool {
			return r.stats(`ext_proc\.mooring\.stream_msgs_sent`)["http.in.ext_proc.mooring.stream_msgs_sent"] > 0
		})
		kill(child)
		resp := receive(t, got, "the answer")
		if resp == nil {
			t.FailNow()
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("mode %d: got %d", mode, resp.StatusCode)
		}
		// And with nobody there at all.
		if a := r.post("x-test-pick", r.workers[0].address); a.status != http.StatusServiceUnavailable {
			t.Errorf("mode %d, after the kill: got %d", mode, a.status)
		}
	}
}

// A replica that is started again is found at once, and its access log too.
func TestMooringMayBeStartedAgain(t *testing.T) {
	r, child := startRigWithChild(t, nil)
	if a := r.post("x-test-pick", r.workers[0].address); a.status != http.StatusOK {
		t.Fatalf("got %d", a.status)
	}
	kill(child)
	address := r.cfg.Listeners[0].ExtProc
	os.Remove(strings.TrimPrefix(address, "unix://"))
	startChild(t, address)
	eventually(t, "requests go through again", func() bool {
		return r.post("x-test-pick", r.workers[0].address).status == http.StatusOK
	})
}
