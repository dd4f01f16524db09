package main

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/affinity"
	"mooring/internal/config"
	"mooring/internal/fleet"
	"mooring/replication"
)

// joinedMesh runs a mesh until its joining is over, and until the test ends.
func joinedMesh(t *testing.T, id uint64, r config.Replication) (*mesh, *prometheus.Registry) {
	t.Helper()
	r.Listen, r.SyncTimeout, r.DigestInterval = "tcp://127.0.0.1:0", time.Millisecond, time.Second
	sessions, err := affinity.NewResolver(fleet.NewLive(fleet.NewView(nil)), affinity.Config{WriterID: id})
	if err != nil {
		t.Fatal(err)
	}
	metrics := prometheus.NewRegistry()
	m, err := newMesh(&config.Config{Replication: r}, id, sessions, nil, slog.New(slog.DiscardHandler), metrics)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- m.run(t.Context()) }()
	t.Cleanup(func() { <-done }) // the context ends before
	if err := m.runner.Joined(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m, metrics
}

func TestAloneWarnsOfNothing(t *testing.T) {
	m, _ := joinedMesh(t, 1, config.Replication{})
	if w := m.warnings(); len(w) != 0 || m.state() != "alone" || m.runner.Status().Join != replication.JoinedByTimeout {
		t.Errorf("state %q, joined by %v, warnings %q; want alone, by timeout, and none", m.state(), m.runner.Status().Join, w)
	}
}

// Two replicas, of which one has a key: each says so of the other.
func TestReadinessNamesPeersWithAnotherKey(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	with, metrics := joinedMesh(t, 1, config.Replication{KeyFile: key})
	without, _ := joinedMesh(t, 2, config.Replication{})
	with.transport.SetPeers([]string{without.endpoint()})
	without.transport.SetPeers([]string{with.endpoint()})
	for m, want := range map[*mesh]string{with: "are not signed, and this replica has a key", without: "are signed, and this replica has no key"} {
		says := func(w string) bool { return strings.Contains(w, "peer tcp://") && strings.Contains(w, want) }
		within(t, "a warning that the peer's messages "+want, func() bool { return slices.ContainsFunc(m.warnings(), says) })
	}
	if got := gauge(t, metrics, "mooring_peer_refused"); got != 1 {
		t.Errorf("mooring_peer_refused is %v, want 1", got)
	}
}

// within waits for what happens between real sockets.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func gauge(t *testing.T, metrics *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

func TestUnheardPeersAreWarnedOf(t *testing.T) {
	since := time.Now().Add(-10 * time.Second)
	peer := replication.PeerAt{Link: replication.Link{Endpoint: "tcp://p:1", Connected: true, Since: since}}
	for _, c := range []struct {
		change func(*replication.PeerAt)
		want   string // "": no warning
	}{
		{func(p *replication.PeerAt) {}, "nothing has come"},
		{func(p *replication.PeerAt) { p.Connected = false }, ""},
		{func(p *replication.PeerAt) { p.Spoke = since }, ""}, // it only publishes bindings
		{func(p *replication.PeerAt) { p.Spoke, p.WriterID = since, 1 }, "not heard for 10s"},
		{func(p *replication.PeerAt) { p.Spoke, p.WriterID = time.Now(), 1 }, ""},
		{func(p *replication.PeerAt) { p.Spoke, p.Distrust = time.Now(), replication.NotOurKey }, "not signed with this replica's key"},
	} {
		p := peer
		c.change(&p)
		got := strings.Join(unheard(&p), "; ")
		if (got != "") != (c.want != "") || !strings.Contains(got, c.want) || got != "" && !strings.Contains(got, "tcp://p:1") {
			t.Errorf("%+v: %q, want %q", p, got, c.want)
		}
	}
}

func TestPeersThatDoNotDialThisReplicaAreWarnedOf(t *testing.T) {
	now := time.Now()
	peer := func(connected, heard time.Duration) replication.PeerAt {
		p := replication.PeerAt{Link: replication.Link{Connected: true, Since: now.Add(-connected)}}
		p.WriterID, p.LastHeard = 1, now.Add(-heard)
		return p
	}
	plain := peer(time.Hour, time.Hour)
	plain.WriterID = 0
	for _, c := range []struct {
		peers       []replication.PeerAt
		subscribers int
		want        bool
	}{
		{nil, 0, false},
		{[]replication.PeerAt{peer(time.Hour, time.Second)}, 0, true},
		{[]replication.PeerAt{peer(time.Hour, time.Second)}, 1, false},
		{[]replication.PeerAt{peer(time.Hour, time.Second), peer(time.Hour, 0)}, 1, true},
		{[]replication.PeerAt{peer(time.Second, time.Second)}, 0, false}, // it may be about to
		{[]replication.PeerAt{peer(time.Hour, time.Minute)}, 0, false},   // it is silent: that is told elsewhere
		{[]replication.PeerAt{plain}, 0, false},                          // it publishes bindings, and needs none
	} {
		if got := unheardBy(c.peers, c.subscribers, now); (len(got) == 1) != c.want {
			t.Errorf("%d peers, %d subscribers: %q", len(c.peers), c.subscribers, got)
		}
	}
}

// One dials the other, which does not know of it: it says so once that lasts.
func TestOneSidedMesh(t *testing.T) {
	t.Parallel() // mostly waiting
	known, _ := joinedMesh(t, 1, config.Replication{})
	late, _ := joinedMesh(t, 2, config.Replication{})
	late.transport.SetPeers([]string{known.endpoint()})
	warns := func() bool {
		return slices.ContainsFunc(late.warnings(), func(w string) bool {
			return strings.Contains(w, "1 peers are heard, and only 0 of them hear this replica")
		})
	}
	within(t, "a warning that nobody hears it", warns)
	known.transport.SetPeers([]string{late.endpoint()})
	within(t, "no warning once it is dialled", func() bool { return !warns() })
}

// A replica that is listed by name among its own peers finds out that it is that
// one; a peer that is down is named.
func TestMeshKnowsItselfAndWhoIsDown(t *testing.T) {
	m, _ := joinedMesh(t, 1, config.Replication{})
	other, _ := joinedMesh(t, 2, config.Replication{})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(m.endpoint(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	m.transport.SetPeers([]string{"tcp://localhost:" + port})
	within(t, "alone, though it is listed", m.alone)

	m.transport.SetPeers([]string{"tcp://localhost:" + port, other.endpoint(), "tcp://127.0.0.1:1"})
	within(t, "a warning of the one that is down", func() bool {
		return slices.Contains(m.warnings(), "replication: tcp://127.0.0.1:1 of 2 peers not connected")
	})
	if got := m.peers(); len(got) != 2 || got[0].Endpoint != other.endpoint() {
		t.Errorf("peers %+v; want two, and not itself", got)
	}
}
