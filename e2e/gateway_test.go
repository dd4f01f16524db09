package e2e

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// TestADeadEnvoysRequestsAreNotAwaited kills Envoy while responses stream: it can
// report no end. They stop counting soon, though another Envoy reports its own.
func TestADeadEnvoysRequestsAreNotAwaited(t *testing.T) {
	s := newStack(t, stackConfig{})
	for i := range 4 {
		s.startStream(http1(), fmt.Sprint("orphan-", i), 400, 50*time.Millisecond)
	}
	s.envoy.Kill()
	s.startEnvoy()
	r, err := post(http1(), s.gateway, "/v1/completions", []byte(`{"model":"sim","prompt":"x","max_tokens":1}`), nil)
	if err != nil || r.status != http.StatusOK {
		t.Fatalf("with a new Envoy: %v, status %d: %s", err, r.status, r.body)
	}
	if n := s.metric("mooring_leases"); n != 4 {
		t.Errorf("%v leases right after the kill, want 4", n)
	}
	eventually(t, 20*time.Second, "the dead Envoy's leases are gone", func() bool { return s.metric("mooring_leases") == 0 })
	s.checkNothingLive()
	s.replica.signal(syscall.SIGTERM)
	if code := s.replica.waitExit(10 * time.Second); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
