package replication_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
)

// patience bounds every wait for real sockets; nothing waits for it to pass.
const patience = 20 * time.Second

// eventually polls what real sockets show by no event.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	within(t, patience, what, ok)
}

func within(t *testing.T, patience time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// node is a replica on real sockets.
type node struct {
	mesh   *replication.ZMQ
	core   *replication.Core
	runner *replication.Runner
	table  *affinity.Table
	stop   func()
}

func startNode(t *testing.T, id uint64, listen string, peers ...string) *node {
	t.Helper()
	return startBigNode(t, id, 0, listen, peers...)
}

// startBigNode starts one for so many sessions; 0: the default.
func startBigNode(t *testing.T, id uint64, sessionsMax int, listen string, peers ...string) *node {
	t.Helper()
	n := &node{}
	var err error
	if n.mesh, err = replication.NewZMQ(replication.ZMQConfig{Listen: listen, Peers: peers}); err != nil {
		t.Fatal(err)
	}
	var core *replication.Core
	sessions, err := affinity.NewResolver(fleet.NewLive(viewOf(3)), affinity.Config{
		WriterID: id, MaxSessions: sessionsMax, Publish: func(p fleet.Partition, ev affinity.Event) { core.Local(p, ev) },
	})
	if err != nil {
		t.Fatal(err)
	}
	core, err = replication.New(time.Now(), replication.Config{Sessions: sessions, SenderID: id, WriterID: id, Links: n.mesh.Links})
	if err != nil {
		t.Fatal(err)
	}
	n.core = core
	n.table, _ = sessions.Table(part)
	n.runner = replication.NewRunner(core, n.mesh, nil, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.runner.Run(ctx) }()
	stopped := false
	n.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v", err)
		}
		n.mesh.Close()
	}
	t.Cleanup(n.stop)
	return n
}

func (n *node) endpoint(t *testing.T) string {
	t.Helper()
	e, err := n.mesh.Endpoint()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (n *node) bind(t *testing.T, session string, worker fleet.WorkerID) {
	t.Helper()
	l, err := n.table.Acquire(t.Context(), session, fleet.Target{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Bind(fleet.OnRank(worker, 0)); err != nil {
		t.Fatal(err)
	}
	l.Release(affinity.Completed)
}

func (n *node) has(session string, worker fleet.WorkerID) bool {
	e, ok := n.table.Lookup(session)
	return ok && e.Target == fleet.OnRank(worker, 0)
}

func joined(t *testing.T, n *node) replication.Join {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := n.runner.Joined(ctx); err != nil {
		t.Fatal(err)
	}
	return n.runner.Status().Join
}

const free = "tcp://127.0.0.1:0"
