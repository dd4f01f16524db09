package replication_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
	"mooring/replication/replicationtest"
)

// running starts a replica on the hub; it ends with the context. No key: it signs
// nothing.
func running(ctx context.Context, t *testing.T, hub *replicationtest.Hub, id uint64, key string, logger *slog.Logger) (*affinity.Table, *replication.Runner, <-chan error) {
	t.Helper()
	return start(ctx, t, hub, key, logger, replication.Config{SenderID: id, WriterID: id})
}

// start is running with more of the configuration; all but its sessions.
func start(ctx context.Context, t *testing.T, hub *replicationtest.Hub, key string, logger *slog.Logger, cfg replication.Config) (*affinity.Table, *replication.Runner, <-chan error) {
	t.Helper()
	var core *replication.Core
	sessions, err := affinity.NewResolver(fleet.NewLive(viewOf(3)), affinity.Config{
		WriterID: cfg.WriterID, Publish: func(p fleet.Partition, ev affinity.Event) { core.Local(p, ev) },
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Sessions = sessions
	if core, err = replication.New(time.Now(), cfg); err != nil {
		t.Fatal(err)
	}
	var signer *replication.Signer
	if key != "" {
		if signer, err = replication.NewSigner([]byte(key), cfg.SenderID, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	runner, done := replication.NewRunner(core, hub.Join(), signer, logger), make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	table, _ := sessions.Table(part)
	return table, runner, done
}

func TestRunnersShareBindingsWithinMilliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		hub := &replicationtest.Hub{}
		const key = "0123456789abcdef"
		a, _, endA := running(ctx, t, hub, 1, key, nil)
		b, runB, endB := running(ctx, t, hub, 2, key, nil)
		c, runC, endC := running(ctx, t, hub, 3, "another key, which nobody else has", nil)
		time.Sleep(2 * time.Second)
		if s := runB.Status(); s.Join != replication.JoinedByDigest || len(s.Peers) != 1 || s.Peers[0].ConvergedSince.IsZero() {
			t.Errorf("status %+v; want ready, and one peer that converged", s)
		}
		l, err := a.Acquire(ctx, "s", fleet.Target{})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Bind(fleet.OnRank(2, 0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
		if e, ok := b.Lookup("s"); !ok || e.Target != fleet.OnRank(2, 0) {
			t.Errorf("after 5ms the peer has %+v, %v", e, ok)
		}
		if _, ok := c.Lookup("s"); ok || len(runC.Status().Peers) != 0 {
			t.Error("a replica with another key took the message")
		}
		cancel()
		for _, end := range []<-chan error{endA, endB, endC} {
			if err := <-end; !errors.Is(err, context.Canceled) {
				t.Errorf("Run = %v", err)
			}
		}
	})
}

// A use that waits for the end of its interval is sent at the stop: peers would
// expire the session early.
func TestStopSendsWhatWaitsForItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		hub := &replicationtest.Hub{}
		table, _, done := running(ctx, t, hub, 1, "", nil)
		peer := hub.Join()
		heard := func() (lives []uint64) {
			for len(peer.Receive()) > 0 {
				if m := <-peer.Receive(); m.Topic == replication.TopicV2 {
					e, err := replication.DecodeEvent(m.Payload)
					if err != nil {
						t.Fatal(err)
					}
					lives = append(lives, *e.TTLMillis)
				}
			}
			return lives
		}
		for range 2 {
			time.Sleep(10 * time.Second)
			l, err := table.Acquire(ctx, "s", fleet.Target{})
			if err != nil {
				t.Fatal(err)
			}
			if _, bound := l.Target(); !bound {
				l.Bind(fleet.OnRank(2, 0))
			}
			l.Release(affinity.Completed)
		}
		time.Sleep(5 * time.Second)
		if n := len(heard()); n != 1 {
			t.Fatalf("%d events before the stop, want only the binding", n)
		}
		stop()
		<-done
		const ttl, since = 30 * 60 * 1000, 5000 // ms
		if lives := heard(); len(lives) != 1 || lives[0] > ttl-since || lives[0] < ttl-since-1000 {
			t.Errorf("at the stop it sends lives of %v ms; want that of the use 5 s before", lives)
		}
	})
}
