package envoy_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
)

// manyStreams is more than Envoy lets through to one cluster by default, and
// more than it puts on one connection.
const manyStreams = 2000

// Requests that are in Mooring's hands at once: Envoy's default breaker lets
// 1,024 in, the generated configuration all of them; two connections suffice.
func TestManyStreamsAtOnce(t *testing.T) {
	tests := []struct {
		name     string
		edit     func(*bootstrapv3.Bootstrap)
		open     int64
		overflow bool
	}{
		{"default breakers", func(b *bootstrapv3.Bootstrap) { tellDetails(b); dropBreakers(b, "mooring") }, 1024, true},
		{"raised breakers", tellDetails, manyStreams, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startEditedRig(t, nil, tt.edit)
			var open atomic.Int64
			r.play(func(s *session) error {
				if _, err := s.stream.Recv(); err != nil {
					return err
				}
				open.Add(1)
				defer open.Add(-1)
				<-s.stream.Context().Done()
				return s.stream.Context().Err()
			})
			refused, leave := r.hold(manyStreams)
			eventually(t, "every request is open or refused", func() bool { return open.Load()+refused.Load() == manyStreams })
			// The access log's stream counts, too, once there was an entry.
			if n := open.Load(); n > tt.open || n < tt.open-1 || (refused.Load() > 0) != tt.overflow {
				t.Errorf("%d streams open, %d requests refused; want %d open", n, refused.Load(), tt.open)
			}
			const connections, overflow = "cluster.mooring.upstream_cx_active", "cluster.mooring.upstream_rq_active_overflow"
			stats := r.stats(`cluster\.mooring\.upstream_(cx_active|rq_active_overflow)`)
			if stats[connections] != 2 || (stats[overflow] > 0) != tt.overflow {
				t.Errorf("%v; want 2 connections", stats)
			}
			leave()
			eventually(t, "no stream is left", func() bool { return open.Load() == 0 })
		})
	}
}

// hold has n requests wait for Mooring, over HTTP/2, until leave is called.
// Those that are answered are counted; the answer must be an overflow's.
func (r *rig) hold(n int) (refused *atomic.Int64, leave func()) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(context.Background())
	refused = new(atomic.Int64)
	var all sync.WaitGroup
	for range n {
		req := r.request(ctx, "/", nil)
		all.Go(func() {
			resp, err := client.Do(req)
			if err != nil {
				return // left
			}
			defer resp.Body.Close()
			io.Copy(io.Discard, resp.Body)
			if resp.StatusCode != http.StatusServiceUnavailable {
				r.t.Errorf("got %d, %s", resp.StatusCode, resp.Header.Get("x-details"))
			}
			refused.Add(1)
		})
	}
	leave = func() { cancel(); all.Wait(); transport.CloseIdleConnections() }
	r.t.Cleanup(leave)
	return refused, leave
}
