package replication_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
)

// BenchmarkBindToUsable is the time from a binding at one replica until another,
// over ZeroMQ on the loopback, would use it. It is read by polling each 50 µs,
// which is part of it.
func BenchmarkBindToUsable(b *testing.B) {
	for _, perSecond := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("binds=%d per s", perSecond), func(b *testing.B) {
			from, to := benchNode(b, 1), benchNode(b, 2)
			connect(b, from, to)
			for b.Loop() {
				took := bindAtRate(b, from, to, perSecond, 2*time.Second)
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-p50")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
			}
		})
	}
}

type benchMesh struct {
	mesh   *replication.ZMQ
	runner *replication.Runner
	table  *affinity.Table
	bound  int
}

func benchNode(b *testing.B, id uint64) *benchMesh {
	b.Helper()
	mesh, err := replication.NewZMQ(replication.ZMQConfig{Listen: "tcp://127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	var core *replication.Core
	sessions, err := affinity.NewResolver(fleet.NewLive(viewOf(3)), affinity.Config{
		WriterID: id, MaxSessions: 1 << 20, Publish: func(p fleet.Partition, ev affinity.Event) { core.Local(p, ev) },
	})
	if err != nil {
		b.Fatal(err)
	}
	if core, err = replication.New(time.Now(), replication.Config{Sessions: sessions, SenderID: id, WriterID: id, Links: mesh.Links}); err != nil {
		b.Fatal(err)
	}
	n := &benchMesh{mesh: mesh, runner: replication.NewRunner(core, mesh, nil, nil)}
	n.table, _ = sessions.Table(part)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.runner.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		<-done
		mesh.Close()
	})
	return n
}

// connect joins the two and waits until both say that they are ready.
func connect(b *testing.B, nodes ...*benchMesh) {
	b.Helper()
	for i, n := range nodes {
		e, err := nodes[1-i].mesh.Endpoint()
		if err == nil {
			err = n.mesh.SetPeers([]string{e})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, n := range nodes {
		if err := n.runner.Joined(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// bindAtRate binds sessions at from, evenly, and returns how long each took to
// be at to.
func bindAtRate(b *testing.B, from, to *benchMesh, perSecond int, d time.Duration) (took []time.Duration) {
	const poll = 50 * time.Microsecond
	type binding struct {
		session string
		at      time.Time
	}
	n := int(d.Seconds() * float64(perSecond))
	made := make(chan binding, n)
	go func() {
		defer close(made)
		start := time.Now()
		for i := range n {
			for time.Since(start) < time.Duration(i)*time.Second/time.Duration(perSecond) {
				time.Sleep(poll)
			}
			from.bound++
			session := fmt.Sprint("s", from.bound)
			l, err := from.table.Acquire(context.Background(), session, fleet.Target{})
			at := time.Now()
			if err == nil {
				err = l.Bind(fleet.OnRank(1, 0))
			}
			if err != nil {
				b.Error(err)
				return
			}
			made <- binding{session, at}
		}
	}()
	for m := range made {
		for {
			if _, ok := to.table.Lookup(m.session); ok {
				break
			}
			time.Sleep(poll)
		}
		took = append(took, time.Since(m.at))
	}
	return took
}
