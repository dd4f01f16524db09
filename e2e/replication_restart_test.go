package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestReplicationBindingsAreUsableEverywhere: what one replica binds, all use.
func TestReplicationBindingsAreUsableEverywhere(t *testing.T) {
	m := newMesh(t, meshOptions{})
	for i, r := range m.replicas {
		if got := r.readiness(t); !got.Ready || got.Replication != "digest" {
			t.Errorf("replica %d: %+v; want ready by digest", i, got)
		}
		// Ready is who has joined by one peer; the connection to the other may be on its way.
		eventually(t, 5*time.Second, fmt.Sprintf("replica %d warns of nothing", i), func() bool { return len(r.readiness(t).Warnings) == 0 })
	}
	for i, r := range m.replicas {
		went := r.bind(t, names(fmt.Sprint("at", i), 100))
		m.equalTables(5*time.Second, m.replicas...)
		for j, other := range m.replicas {
			if moved := other.moved(t, went); moved > 0 {
				t.Errorf("%d of 100 sessions of replica %d move at %d", moved, i, j)
			}
		}
	}
	for i, r := range m.replicas {
		for j, other := range m.replicas {
			if i == j {
				continue
			}
			p := r.peer(t, other.mesh)
			if !p.Connected || p.ReplicaID == nil || *p.ReplicaID != other.waitLog("ready")["replica"] || p.LastHeard == nil || *p.LastHeard > 3000 {
				t.Errorf("replica %d says of %d: %+v", i, j, p)
			}
		}
	}
}

// TestReplicationRestart kills replicas with SIGKILL and starts them again at the
// same address, and one at a new address that the others learn by a reload.
func TestReplicationRestart(t *testing.T) {
	t.Parallel() // mostly waiting
	m := newMesh(t, meshOptions{})
	went := m.replicas[0].bind(t, names("s", 500))
	before := m.equalTables(5*time.Second, m.replicas...)
	for i := range m.replicas {
		m.replicas[i].kill()
		began := time.Now()
		m.start(i)
		r := m.await(i)
		t.Logf("replica %d was ready %v after its start, by %s", i, time.Since(began).Round(time.Millisecond), r.readiness(t).Replication)
		if moved := r.moved(t, went); moved > 0 {
			t.Errorf("replica %d: %d of 500 sessions moved by its restart", i, moved)
		}
	}
	m.replicas[2].kill()
	m.replicas[2].mesh = "tcp://" + freeAddress(t)
	m.configure(0)
	m.configure(1)
	m.start(2)
	r := m.await(2)
	if moved := r.moved(t, went); moved > 0 {
		t.Errorf("%d of 500 sessions moved by a restart at a new address", moved)
	}
	for session, address := range r.bind(t, names("new", 100)) {
		went[session] = address
	}
	// Reads change nothing: versions are those of the first binds, however often
	// replicas restarted in between.
	after := m.equalTables(10*time.Second, m.replicas...)
	for session, row := range before {
		if after[session] != row {
			t.Fatalf("session %s was %+v, is %+v", session, row, after[session])
		}
	}
	if len(after) != 600 {
		t.Errorf("%d sessions, want 600", len(after))
	}
	for i, r := range m.replicas[:2] {
		if moved := r.moved(t, went); moved > 0 {
			t.Errorf("replica %d: %d of 600 sessions moved", i, moved)
		}
	}
}

// TestReplicationInAnyOrder starts replicas in every order, with sessions bound by
// the first before the others come.
func TestReplicationInAnyOrder(t *testing.T) {
	t.Parallel() // mostly waiting
	m := prepareMesh(t, meshOptions{})
	for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 2, 0}} {
		all := make(map[string]string)
		for n, i := range order {
			m.options.replication = ""
			if n == 0 {
				m.options.replication = "sync_timeout: 1s" // there is nobody to wait for
			}
			m.start(i)
			r := m.await(i)
			if moved := r.moved(t, all); moved > 0 {
				t.Errorf("order %v: %d of %d sessions moved at replica %d, ready by %s", order, moved, len(all), i, r.readiness(t).Replication)
			}
			for session, address := range r.bind(t, names(fmt.Sprint("of", n), 100)) {
				all[session] = address
			}
		}
		if rows := m.equalTables(5*time.Second, m.replicas...); len(rows) != 300 {
			t.Errorf("order %v: %d sessions, want 300", order, len(rows))
		}
		for _, r := range m.replicas {
			r.kill()
		}
	}
}

// TestReplicationLateJoiner is B51: a joiner that says it is ready has all.
func TestReplicationLateJoiner(t *testing.T) {
	sessions := 5_000
	if long() {
		sessions = 50_000
	}
	// The default: however long it takes, the timeout counts from what came last.
	m := prepareMesh(t, meshOptions{plain: true, replication: "sync_timeout: 3s"})
	m.start(0)
	m.start(1)
	m.await(0)
	m.await(1)
	went := m.replicas[0].bind(t, names("s", sessions))
	m.equalTables(20*time.Second, m.replicas[:2]...)
	began := time.Now()
	m.start(2)
	r := m.await(2)
	t.Logf("ready with %d bindings %v after its start", sessions, time.Since(began).Round(time.Millisecond))
	some := make(map[string]string)
	for _, i := range rand.Perm(sessions)[:100] {
		session := fmt.Sprint("s-", i)
		some[session] = went[session]
	}
	if moved := r.moved(t, some); moved > 0 {
		t.Errorf("%d of 100 sessions moved at the moment it said it was ready", moved)
	}
	if got := r.readiness(t).Replication; got != "digest" {
		t.Errorf("joined by %s, want digest", got)
	}
	if rows := r.table(t); len(rows) != sessions {
		t.Errorf("%d bindings, want %d", len(rows), sessions)
	}
}

// TestReplicationSourceDies is B52: the peer that a joiner is repaired by is
// killed meanwhile; the other one has the rest.
func TestReplicationSourceDies(t *testing.T) {
	m := prepareMesh(t, meshOptions{plain: true, replication: "sync_timeout: 60s"})
	m.start(0)
	m.start(1)
	m.await(0)
	m.await(1)
	const sessions = 5_000
	went := m.replicas[0].bind(t, names("s", sessions))
	m.equalTables(20*time.Second, m.replicas[:2]...)
	r := m.start(2)
	r.admin = "" // it is not ready: nobody may ask it yet
	time.Sleep(time.Duration(50+rand.IntN(300)) * time.Millisecond)
	m.replicas[0].kill()
	m.await(2)
	if moved := r.moved(t, went); moved > 0 {
		t.Errorf("%d of %d sessions moved", moved, sessions)
	}
	if got := r.readiness(t).Replication; got != "digest" {
		t.Errorf("joined by %s, want digest", got)
	}
}
