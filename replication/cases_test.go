package replication_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/replication"
)

// TestFloodFitsInMemory has a peer invent a million sessions, each announced
// once: what stays is what the limits allow. Without MOORING_LONG it is a tenth of
// a million, since the race detector makes the whole last for minutes.
func TestFloodFitsInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, setup{seed: 1, n: 1, ttl: 30 * time.Minute, max: 4096})
		r := c.replicas[0]
		inUse := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		before := inUse()
		ids := 100_000
		if os.Getenv("MOORING_LONG") != "" {
			ids = 1_000_000
		}
		e := plainEvent("", 1, uint64(time.Now().UnixNano()), 9)
		var payload []byte
		for i := range ids {
			e.SessionID = fmt.Sprintf("flood-%d-from-a-peer-that-invents-them", i)
			e.SenderID, e.SenderSeq = 5000+uint64(i%1000), uint64(1+i)
			payload = replication.AppendEvent(payload[:0], &e)
			r.seen[r.core.Receive(time.Now(), replication.Message{Topic: replication.TopicV2, Payload: payload})]++
			if i%1000 == 0 {
				r.core.Tick(time.Now())
				r.core.Flush(time.Now())
			}
		}
		grown := int64(inUse()) - int64(before)
		t.Logf("%d bytes for %d bindings", grown, len(r.records()))
		if n := len(r.records()); n != 2*c.max || r.seen[replication.Full] != ids-n {
			t.Errorf("%d bindings, %v; want %d, and all others refused", n, r.seen, 2*c.max)
		}
		if grown > 8<<20 {
			t.Errorf("the flood took %d bytes that stay", grown)
		}
	})
}

// TestHeldEventsAreBounded floods partitions that are not there, and one that
// may come, with the longest names that a payload can carry.
func TestHeldEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, setup{seed: 1, n: 1, ttl: time.Minute})
		r := c.replicas[0]
		long := string(make([]byte, 100_000))
		for i := range 6000 {
			e := plainEvent(fmt.Sprint("s", i), 1, 1, 9)
			e.ModelName = "to come"
			switch i % 3 {
			case 1:
				e.ModelName += long
			case 2:
				e.SessionID += long
			}
			r.seen[r.core.Apply(time.Now(), fleet.Partition{Model: e.ModelName, Group: e.RoutingGroup}, &e)]++
		}
		if r.seen[replication.Held] != 2000 || r.seen[replication.Invalid] != 4000 {
			t.Errorf("%v; want 2000 held, and those with too long names refused", r.seen)
		}
	})
}

// TestUnknownKeysAndTypesAreSkipped is a rolling upgrade, seen from behind.
func TestUnknownKeysAndTypesAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, setup{seed: 1, n: 1, ttl: time.Minute})
		r := c.replicas[0]
		e := plainEvent("s", 2, uint64(time.Now().UnixNano()), 9)
		newer := replication.AppendEvent(nil, &e)
		newer[0]++
		newer = append(newer, "\xa6future\x93\x01\xc0\xa1x"...)
		for _, step := range []struct {
			msg  replication.Message
			want replication.Disposition
		}{
			{replication.Message{Topic: replication.TopicV2, Payload: newer}, replication.Inserted},
			{replication.Message{Topic: replication.TopicSync, Payload: []byte("\x83\xa4type\xa6future\xa9sender_id\x07\xaasender_seq\x01")}, replication.UnknownType},
			{replication.Message{Topic: replication.TopicSync, Payload: []byte("\x83\xa4type\xa5hello\xa9sender_id\x07\xaasender_seq\x02")}, replication.Synced},
			{replication.Message{Topic: "dynamo.session-affinity.v2.more", Payload: newer}, replication.Malformed},
		} {
			if got := r.core.Receive(time.Now(), step.msg); got != step.want {
				t.Errorf("%q: %v, want %v", step.msg.Payload, got, step.want)
			}
		}
	})
}

// TestMixedMeshAgrees has replicas and a plain peer bind the same sessions for
// two lives of a binding: the replicas agree, and nothing flips back and forth.
func TestMixedMeshAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, setup{seed: 1, n: 3, ttl: 30 * time.Second})
		c.plain = newPlainPeer(c.ttl, 1, 0)
		c.run(time.Second)
		for i := range 60 {
			session := fmt.Sprint("s", i%7)
			c.plain.commit(session, uint64(1+i%3))
			if i%2 == 0 {
				c.plain.release()
			}
			if i%3 == 0 {
				c.replicas[i%2].table().Unpin(session)
			}
			if h, err := c.open(c.replicas[i%3], session, 2); err == nil {
				h.Release(affinity.Completed)
			}
			c.run(time.Second)
		}
		c.run(10 * time.Second)
		before := c.replicas[0].records()
		if lacks := c.differing(); len(lacks) > 0 || len(before) == 0 {
			t.Errorf("%d records, of which differ%s", len(before), describe(lacks))
		}
		for i := range 7 { // uses alone move nothing
			c.plain.commit(fmt.Sprint("s", i), 3)
			c.run(time.Second)
		}
		for sum, r := range c.replicas[1].records() {
			if _, ok := before[sum]; !ok && r.WriterID != c.plain.writer {
				t.Errorf("%v %s was moved by uses: %+v", r.Kind, r.Session, r)
			}
		}
	})
}

// TestRestartsKeepValues restarts a replica ten times: what it learns again is
// what it knew, and no count or life grows.
func TestRestartsKeepValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, setup{seed: 1, n: 3, ttl: 30 * time.Minute})
		c.run(time.Second)
		c.opened(t, c.replicas[0], "s", 100)
		c.replicas[0].table().Unpin("s7")
		c.run(time.Second)
		before := c.replicas[0].records()
		for range 10 {
			c.start(c.replicas[0])
			c.run(3 * time.Second)
			after := c.replicas[0].records()
			if len(after) != len(before) {
				t.Fatalf("%d records, before %d", len(after), len(before))
			}
			for sum, r := range after {
				was, ok := before[sum]
				if !ok || r.Target != was.Target || r.Sequence != was.Sequence || r.WriterID != was.WriterID || r.Life > was.Life {
					t.Fatalf("%+v; before the restart %+v", r, was)
				}
			}
			for _, b := range c.replicas[0].sessions.BindingsByWorker() {
				if b != 99 {
					t.Fatalf("%d sessions on the worker, want 99", b)
				}
			}
			before = after
		}
	})
}

// TestLargeBucketsAreNarrowed has two replicas differ in one of 400 sessions of
// one bucket: the one that lacks it asks for a sub-bucket and names what it has of
// that alone. What asks for sub-buckets may be lost.
func TestLargeBucketsAreNarrowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, setup{seed: 1, n: 2, ttl: 30 * time.Minute})
		for i, n := 0, 0; n < 400; i++ {
			ev := affinity.Event{Session: fmt.Sprint("s", i), Target: fleet.OnRank(1, 0), Sequence: 1, Life: time.Minute}
			if affinity.BucketOf(ev.Session) != 7 {
				continue
			}
			for j, r := range c.replicas {
				if n > 0 || j == 0 {
					r.table().Apply(ev)
				}
			}
			n++
		}
		var sent []replication.SyncMessage
		c.sent = func(from int, m replication.Message) {
			if s, err := replication.DecodeSync(m.Payload); m.Topic == replication.TopicSync && err == nil {
				if asks := len(s.Buckets) > 0 && s.Type == replication.Hello; asks && len(sent) == 0 {
					c.net.Cut(0, 1) // the first goes nowhere
				}
				if s.Type == replication.Want || len(s.Buckets) > 0 {
					sent = append(sent, s)
				}
			}
		}
		c.run(time.Second)
		if len(sent) == 0 {
			t.Fatal("nobody asked for sub-buckets")
		}
		c.net.Heal()
		sent = sent[:1]
		c.run(12500 * time.Millisecond)
		if lacks := c.differing(); len(lacks) > 0 {
			t.Errorf("differing:%s", describe(lacks))
		}
		var want *replication.SyncMessage
		for i := range sent {
			if sent[i].Type == replication.Want {
				want = &sent[i]
			}
		}
		if want == nil || len(want.Buckets) > 0 || len(want.Subs) != 2 || want.Subs[0] != 7 || len(want.Have) > 8*20 {
			t.Errorf("want %+v; want one sub-bucket of bucket 7 and what is held of it", want)
		}
	})
}
