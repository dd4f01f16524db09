package e2e

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReplicationCannotStart is B98: the mesh port is taken, a peer's name does
// not resolve, no peer is there. The replica serves alone, says so, and joins
// when it can.
func TestReplicationCannotStart(t *testing.T) {
	t.Parallel() // mostly waiting
	m := prepareMesh(t, meshOptions{replicas: 2, replication: "sync_timeout: 1s", peers: []string{"tcp://nobody.invalid:9092"}})
	taken, err := net.Listen("tcp", strings.TrimPrefix(m.replicas[0].mesh, "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	began := time.Now()
	m.start(0)
	a := m.await(0)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("ready after %v; dead peers must not delay the start beyond sync_timeout", took)
	}
	state := a.readiness(t)
	if !state.Ready || state.Replication != "timeout" || !strings.Contains(fmt.Sprint(state.Warnings), "peers do not hear this replica") ||
		!strings.Contains(fmt.Sprint(state.Warnings), "none of 2 peers is connected") {
		t.Errorf("%+v; want ready, and warnings that the port is taken and nobody connected", state)
	}
	went := a.bind(t, names("alone", 100))
	m.start(1)
	b := m.await(1)
	taken.Close()
	m.equalTables(20*time.Second, a, b)
	if moved := b.moved(t, went); moved > 0 {
		t.Errorf("%d of 100 sessions moved", moved)
	}
	eventually(t, 10*time.Second, "a warning of the peer that is nowhere, and no other", func() bool {
		w := a.readiness(t).Warnings
		return len(w) == 1 && strings.Contains(w[0], "tcp://nobody.invalid:9092 of 2 peers not connected")
	})
}

// TestReplicationWithoutMesh: an empty address turns it off.
func TestReplicationWithoutMesh(t *testing.T) {
	s := newStack(t, stackConfig{replication: `{listen: ""}`})
	var state readiness
	if _, err := fetch(s.admin+"/readyz", &state); err != nil || state.Replication != "off" {
		t.Errorf("%+v, %v; want replication off", state, err)
	}
	var peers struct {
		ReplicaID string `json:"replica_id"`
		Peers     []peerRow
	}
	if status, err := fetch(s.admin+"/v1/peers", &peers); err != nil || status != 200 || peers.ReplicaID == "" || peers.Peers == nil || len(peers.Peers) > 0 {
		t.Errorf("status %d, %+v, %v", status, peers, err)
	}
	converse(t, http1(), s.gateway, newConversations("off", "sim", 5), 2)
}

// TestReplicationSameWriter is B58: two replicas with one writer id say so, and
// nothing of either is lost.
func TestReplicationSameWriter(t *testing.T) {
	t.Parallel() // mostly waiting
	m := newMesh(t, meshOptions{replicas: 2, replication: "writer_id: 42"})
	a, b := m.replicas[0], m.replicas[1]
	for i, r := range m.replicas {
		eventually(t, 10*time.Second, "a warning", func() bool {
			return strings.Contains(fmt.Sprint(r.readiness(t).Warnings), "writer_id 42; each needs its own")
		})
		r.bind(t, names(fmt.Sprint("of", i), 100))
	}
	if rows := m.equalTables(10*time.Second, a, b); len(rows) != 200 {
		t.Errorf("%d bindings, want 200", len(rows))
	}
	b.kill()
	m.start(1) // at once, with the same address and writer id
	b = m.await(1)
	went := b.bind(t, names("again", 100))
	m.equalTables(10*time.Second, a, b)
	if moved := a.moved(t, went); moved > 0 {
		t.Errorf("%d of 100 sessions of a restarted writer moved", moved)
	}
}

// TestReplicationKey: who holds the key is heard, who does not is counted.
func TestReplicationKey(t *testing.T) {
	t.Parallel() // mostly waiting
	m := prepareMesh(t, meshOptions{replication: "key_file: mesh.key\nsync_timeout: 1s"})
	m.write("mesh.key", "0123456789abcdef0123456789abcdef\n")
	m.start(0)
	m.start(1)
	a, b := m.await(0), m.await(1)
	m.write("mesh.key", "another key, which is long enough\n")
	m.start(2)
	stranger := m.await(2)
	went := a.bind(t, names("signed", 100))
	stranger.bind(t, names("forged", 100))
	m.equalTables(10*time.Second, a, b)
	if moved := b.moved(t, went); moved > 0 {
		t.Errorf("%d of 100 sessions moved", moved)
	}
	eventually(t, 10*time.Second, "forged messages are counted", func() bool {
		return a.metric(t, "mooring_replication_events_total") > 0 && a.disposition(t, "forged") > 100
	})
	if rows := a.table(t); len(rows) != 100 {
		t.Errorf("%d bindings, want the 100 that are signed", len(rows))
	}
}

// disposition returns how many messages came to that.
func (r *meshReplica) disposition(t *testing.T, word string) float64 {
	t.Helper()
	return metricAt(t, r.admin+"/metrics", "mooring_replication_events_total", "disposition", word)
}

// TestReplicationShutdownSendsAll: what was bound just before SIGTERM is at the
// peers.
func TestReplicationShutdownSendsAll(t *testing.T) {
	m := newMesh(t, meshOptions{replicas: 2})
	a, b := m.replicas[0], m.replicas[1]
	f := a.flow("last", 300)
	eventually(t, 10*time.Second, "some bindings", func() bool { return len(b.table(t)) > 50 })
	went := f.stop()
	a.signal(syscall.SIGTERM)
	if code := a.waitExit(20 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if moved := b.moved(t, went); moved > 0 {
		t.Errorf("%d of %d sessions moved", moved, len(went))
	}
}

// TestReplicationChurn is B71 and B72: a replica comes and goes every two seconds
// under steady traffic. Nothing is forgotten, and versions do not change.
func TestReplicationChurn(t *testing.T) {
	t.Parallel() // mostly waiting
	rounds := 4
	if long() {
		rounds = 30
	}
	m := newMesh(t, meshOptions{})
	a, b := m.replicas[0], m.replicas[1]
	went := a.bind(t, names("old", 200))
	before := m.equalTables(10*time.Second, m.replicas...)
	f := b.flow("new", 50)
	for range rounds {
		m.replicas[2].kill()
		time.Sleep(time.Second)
		m.start(2)
		r := m.await(2)
		if moved := r.moved(t, went); moved > 0 {
			t.Errorf("%d of 200 sessions moved at a replica that came back", moved)
		}
		time.Sleep(time.Second)
	}
	for session, address := range f.stop() {
		went[session] = address
	}
	after := m.equalTables(10*time.Second, m.replicas...)
	if len(after) != len(went) || f.failed.Load() > 0 {
		t.Errorf("%d bindings, want %d; %d picks failed", len(after), len(went), f.failed.Load())
	}
	for session, row := range before {
		if after[session] != row {
			t.Fatalf("session %s was %+v, is %+v", session, row, after[session])
		}
	}
	if moved := a.moved(t, went); moved > 0 {
		t.Errorf("%d of %d sessions moved", moved, len(went))
	}
}
