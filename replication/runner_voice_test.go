package replication_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mooring/replication"
	"mooring/replication/replicationtest"
)

// linked is what a runner knows of the nodes of the hub, all of which are connected.
func linked(r *replication.Runner, since time.Time, nodes ...string) []replication.PeerAt {
	var links []replication.Link
	for _, n := range nodes {
		links = append(links, replication.Link{Endpoint: n, Connected: true, Since: since})
	}
	status := r.Status()
	return status.At(links)
}

// Keys that do not fit are told of at both ends: in the status, and once a peer in
// the log.
func TestWrongKeysAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		hub, began := &replicationtest.Hub{}, time.Now()
		var log bytes.Buffer
		_, a, endA := running(ctx, t, hub, 1, "0123456789abcdef", slog.New(slog.NewTextHandler(&log, nil)))
		_, _, endB := running(ctx, t, hub, 2, "another key, which nobody else has", nil)
		_, c, endC := running(ctx, t, hub, 3, "", nil)
		_, _, endD := running(ctx, t, hub, 4, "0123456789abcdef", nil)
		time.Sleep(10 * time.Minute)

		for i, p := range linked(a, began, "node2", "node3", "node4") {
			want := []replication.Distrust{replication.NotOurKey, replication.NotSigned, replication.Trusted}[i]
			if p.Distrust != want || time.Since(p.Spoke) > 2*time.Second {
				t.Errorf("of %s a says that its messages %v, the last of them %v ago; want that they %v", p.Endpoint, p.Distrust, time.Since(p.Spoke), want)
			}
		}
		for _, p := range linked(c, began, "node1", "node2") {
			if p.Distrust != replication.SignedAtAll {
				t.Errorf("of %s the one without a key says that its messages %v", p.Endpoint, p.Distrust)
			}
		}
		cancel()
		for _, end := range []<-chan error{endA, endB, endC, endD} {
			<-end
		}
		lines := strings.Count(log.String(), "level=WARN")
		if lines != 2 || !strings.Contains(log.String(), "not signed with this replica's key\" endpoint=node2") || !strings.Contains(log.String(), "and this replica has a key\" endpoint=node3") {
			t.Errorf("%d warnings, want one of node2 and one of node3:\n%s", lines, &log)
		}
	})
}

// When a peer is not heard any more nobody knows whether it still differs.
func TestSilenceEndsConvergence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ctxB, stop := context.WithCancel(ctx)
		hub, began := &replicationtest.Hub{}, time.Now()
		_, a, endA := running(ctx, t, hub, 1, "", nil)
		_, _, endB := running(ctxB, t, hub, 2, "", nil)
		time.Sleep(10 * time.Second)
		before := linked(a, began, "node2")[0]
		if _, quiet := before.Quiet(time.Now()); quiet || before.ConvergedSince.IsZero() {
			t.Fatalf("two replicas: quiet %v, %+v", quiet, before)
		}
		stop()
		<-endB
		time.Sleep(1500 * time.Millisecond)
		p := linked(a, began, "node2")[0]
		if _, quiet := p.Quiet(time.Now()); quiet || p.ConvergedSince.IsZero() {
			t.Errorf("after a short silence: quiet %v, %+v", quiet, p)
		}
		time.Sleep(2500 * time.Millisecond)
		p = linked(a, began, "node2")[0]
		if since, quiet := p.Quiet(time.Now()); !quiet || since < 3*time.Second || !p.ConvergedSince.IsZero() {
			t.Errorf("after 4 s of silence: quiet %v for %v, %+v", quiet, since, p)
		}
		if !a.Status().Converged {
			t.Error("that it had the peer's bindings once is forgotten")
		}
		_, _, endB = running(ctx, t, hub, 2, "", nil)
		time.Sleep(10 * time.Second)
		p = linked(a, began, "node3")[0]
		if _, quiet := p.Quiet(time.Now()); quiet || !p.ConvergedSince.After(before.ConvergedSince) {
			t.Errorf("after its return: quiet %v, converged since %v, before %v", quiet, p.ConvergedSince, before.ConvergedSince)
		}
		cancel()
		<-endA
		<-endB
	})
}

// Who only publishes bindings may be silent; who never said anything is not at a
// mesh port, it may be.
func TestQuietPeers(t *testing.T) {
	now := time.Now()
	link := replication.Link{Endpoint: "e", Connected: true, Since: now.Add(-10 * time.Second)}
	for _, c := range []struct {
		name string
		peer replication.PeerAt
		want time.Duration // 0: not quiet
	}{
		{"never heard", replication.PeerAt{Link: link}, 10 * time.Second},
		{"only just connected", replication.PeerAt{Link: replication.Link{Connected: true, Since: now.Add(-time.Second)}}, 0},
		{"not connected", replication.PeerAt{Link: replication.Link{Since: link.Since}}, 0},
		{"only publishes", replication.PeerAt{Link: link, Spoke: now.Add(-9 * time.Second)}, 0},
		{"fell silent", replication.PeerAt{Link: link, Peer: replication.Peer{WriterID: 1}, Spoke: now.Add(-4 * time.Second)}, 4 * time.Second},
		{"speaks", replication.PeerAt{Link: link, Peer: replication.Peer{WriterID: 1}, Spoke: now.Add(-time.Second)}, 0},
	} {
		if since, quiet := c.peer.Quiet(now); quiet != (c.want > 0) || quiet && since != c.want {
			t.Errorf("%s: quiet %v for %v, want %v", c.name, quiet, since, c.want)
		}
	}
}
