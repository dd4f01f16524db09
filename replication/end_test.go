package replication_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
	"mooring/replication/replicationtest"
)

func TestEndsAndSignsOfLifeOnTheWire(t *testing.T) {
	for _, want := range []replication.SyncMessage{
		{Type: replication.Alive, SenderID: 1, SenderSeq: 2, WriterID: 1<<64 - 1},
		{Type: replication.Alive, SenderID: 1, SenderSeq: 2, WriterID: 3, Digested: true},
		{Type: replication.StreamEnd, SenderID: 1, SenderSeq: 2, To: 7, End: replication.End{Replica: 7, Lease: 1<<64 - 1, Outcome: affinity.NeverSent, Served: "[fd00::1]:8000", ConnectFailed: true}},
		{Type: replication.StreamEnd, SenderID: 1, SenderSeq: 2, To: 7, End: replication.End{Replica: 7, Lease: 1}},
	} {
		got, err := replication.DecodeSync(replication.AppendSync(nil, &want))
		if err != nil || got.Type != want.Type || got.WriterID != want.WriterID || got.Digested != want.Digested || got.To != want.To || got.End != want.End {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
	}
	long := replication.SyncMessage{Type: replication.StreamEnd, SenderID: 1, To: 7, End: replication.End{Served: strings.Repeat("x", 65)}}
	if _, err := replication.DecodeSync(replication.AppendSync(nil, &long)); !errors.Is(err, replication.ErrMalformed) {
		t.Errorf("an address of 65 bytes: %v", err)
	}
}

// An end goes to the replica that picked, and to nobody that is not there.
func TestEndGoesToWhoPicked(t *testing.T) {
	ended := make(map[uint64][]replication.End)
	core := func(id uint64) *replication.Core {
		sessions, err := affinity.NewResolver(fleet.NewLive(viewOf(1)), affinity.Config{WriterID: id})
		if err != nil {
			t.Fatal(err)
		}
		c, err := replication.New(time.Now(), replication.Config{
			Sessions: sessions, SenderID: id, WriterID: id, Ended: func(e replication.End) { ended[id] = append(ended[id], e) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b, c := core(1), core(2), core(3)
	now := time.Now()
	tell := func(from *replication.Core, to ...*replication.Core) {
		for _, m := range from.Flush(now) {
			for _, other := range to {
				other.Receive(now, m)
			}
		}
	}
	e := replication.End{Replica: 2, Lease: 5, Outcome: affinity.Completed}
	if a.SendEnd(now, e) {
		t.Error("sent to a replica that was never heard of")
	}
	b.Alive()
	tell(b, a, c)
	if !a.SendEnd(now, e) {
		t.Fatal("not sent to a replica that is there")
	}
	tell(a, b, c)
	if len(ended[2]) != 1 || ended[2][0] != e || len(ended[1])+len(ended[3]) > 0 {
		t.Errorf("ends %v, want one at replica 2", ended)
	}
	if a.SendEnd(now.Add(6*time.Second), e) {
		t.Error("sent to a replica that has been silent for 6 s")
	}
}

// Ends that were taken are sent, also those that wait when the runner is stopped;
// later ones are not taken.
func TestStopSendsTheEndsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 50
		hub := &replicationtest.Hub{}
		var arrived atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		ctxA, stop := context.WithCancel(ctx)
		_, a, doneA := running(ctxA, t, hub, 1, "", nil)
		_, _, doneB := start(ctx, t, hub, "", nil, replication.Config{SenderID: 2, WriterID: 2, Ended: func(replication.End) { arrived.Add(1) }})
		time.Sleep(2 * time.Second)
		for i := range n {
			if !a.End(replication.End{Replica: 2, Lease: uint64(1 + i)}) {
				t.Fatalf("end %d was not taken", i)
			}
		}
		stop()
		<-doneA
		if a.End(replication.End{Replica: 2, Lease: n + 1}) {
			t.Error("an end was taken by a runner that has ended")
		}
		time.Sleep(time.Second)
		if got := arrived.Load(); got != n {
			t.Errorf("%d ends arrived, want %d", got, n)
		}
		cancel()
		<-doneB
	})
}
