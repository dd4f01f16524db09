package replication_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
)

// A life of which less than a millisecond is left is one all the same: 0 would be
// ignored.
func TestLifeIsRoundedUp(t *testing.T) {
	for life, want := range map[time.Duration]uint64{
		1: 1, time.Millisecond - 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 90 * time.Second: 90_000,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newCluster(t, setup{seed: 1, n: 1, ttl: 30 * time.Minute}).replicas[0]
			for _, ev := range []affinity.Event{
				{Kind: affinity.EventBound, Session: "s", Target: fleet.OnRank(1, 0), Sequence: 5, WriterID: 1, Life: life},
				{Kind: affinity.EventUnpinned, Session: "u", Sequence: 6, WriterID: 1, Life: life},
			} {
				r.table().Apply(ev)
				r.core.Local(part, ev)
				if got := toldLife(t, r.core.Flush(time.Now())); got != want {
					t.Errorf("%v with a life of %v: ttl_ms %d, want %d", ev.Kind, life, got, want)
				}
			}
		})
	}
}

// toldLife returns the ttl_ms of the binding or the floor among the messages.
func toldLife(t *testing.T, msgs []replication.Message) (ms uint64) {
	t.Helper()
	for _, m := range msgs {
		if m.Topic != replication.TopicSync {
			e, err := replication.DecodeEvent(m.Payload)
			if err != nil || e.TTLMillis == nil {
				t.Fatalf("decode %+v: %v", e, err)
			}
			return *e.TTLMillis
		}
		s, err := replication.DecodeSync(m.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if s.Type == replication.Floor {
			return s.TTLMillis
		}
	}
	t.Fatal("nothing was told")
	return 0
}

// No message gives anything a longer life than 24 h, also one that says more than
// a duration holds.
func TestLifeIsCapped(t *testing.T) {
	const day = 24 * time.Hour
	for ms, want := range map[uint64]time.Duration{
		1: time.Millisecond, uint64(day.Milliseconds()): day, uint64(day.Milliseconds()) + 1: day, 1 << 50: day, 1 << 63: day, math.MaxUint64: day,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newCluster(t, setup{seed: 1, n: 1, ttl: 30 * time.Minute}).replicas[0]
			e := plainEvent("s", 1, uint64(time.Now().UnixNano()), 9)
			e.SenderID, e.SenderSeq, e.TTLMillis = 5, 1, &ms
			r.core.Receive(time.Now(), replication.Message{Topic: replication.TopicV2, Payload: replication.AppendEvent(nil, &e)})
			floor := replication.SyncMessage{Type: replication.Floor, SenderID: 5, SenderSeq: 2, Partition: part, SessionID: "u", Sequence: e.Sequence, WriterID: 9, TTLMillis: ms}
			r.core.Receive(time.Now(), replication.Message{Topic: replication.TopicSync, Payload: replication.AppendSync(nil, &floor)})
			if n := len(r.records()); n != 2 {
				t.Fatalf("ttl_ms %d: %d records, want a binding and a floor", ms, n)
			}
			for _, rec := range r.records() {
				if rec.Life != want {
					t.Errorf("ttl_ms %d: %v lives for %v, want %v", ms, rec.Kind, rec.Life, want)
				}
			}
		})
	}
}
