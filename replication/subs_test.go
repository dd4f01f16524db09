package replication

import (
	"fmt"
	"testing"
	"time"

	"mooring/affinity"
)

// tell has core hear a message of another replica.
func tell(t *testing.T, core *Core, now time.Time, sender uint64, m *SyncMessage) {
	t.Helper()
	m.SenderID, m.SenderSeq = sender, 1
	if got := core.Receive(now, Message{Topic: TopicSync, Payload: AppendSync(nil, m)}); got != Synced {
		t.Fatalf("%v of %d: %v", m.Type, sender, got)
	}
}

// eventsOfBucket returns n bindings that are all in one bucket.
func eventsOfBucket(bucket uint8, n int) (events []affinity.Event) {
	for i := 0; len(events) < n; i++ {
		ev := benchEvent(0)
		if ev.Session = fmt.Sprint("s", i); affinity.BucketOf(ev.Session) == bucket {
			events = append(events, ev)
		}
	}
	return events
}

// subsTold counts the answers with sub-buckets, and their buckets.
func subsTold(msgs []Message) (answers, buckets int) {
	for _, m := range msgs {
		if s, err := DecodeSync(m.Payload); m.Topic == TopicSync && err == nil && s.Type == DigestOf && len(s.Buckets) > 0 {
			answers, buckets = answers+1, buckets+len(s.Buckets)
		}
	}
	return answers, buckets
}

// TestSubBucketsAreToldInTurn has peers ask for more sub-buckets than may be told
// in a second: all get their answer, one each, and no second brings too much.
func TestSubBucketsAreToldInTurn(t *testing.T) {
	const peers, step = 40, 20 * time.Millisecond
	core, table := newBenchCore(t, 1, 1000)
	table.Apply(benchEvent(1))
	all := make([]byte, affinity.Buckets)
	for i := range all {
		all[i] = byte(i)
	}
	start := time.Now()
	core.Tick(start)
	core.Flush(start)
	ask := func(now time.Time, peer int, buckets []byte) {
		tell(t, core, now, uint64(100+peer), &SyncMessage{Type: Hello, To: 1, Partition: benchPart, Buckets: buckets})
	}
	for i := range peers {
		ask(start, i, all[:1])
		ask(start, i, all)
	}
	var sent []int // buckets in each step
	answers, total := 0, 0
	for now := start.Add(step); now.Before(start.Add(4 * time.Second)); now = now.Add(step) {
		core.Tick(now)
		a, b := subsTold(core.Flush(now))
		answers, total, sent = answers+a, total+b, append(sent, b)
		if a > 0 {
			ask(now, 0, all) // too soon after its answer, or another that waits
		}
	}
	most := 0
	for i := range sent {
		second := 0
		for _, n := range sent[max(0, i-49) : i+1] {
			second += n
		}
		most = max(most, second)
	}
	if answers < peers || answers > peers+8 || total != answers*len(all) {
		t.Errorf("%d answers of %d buckets; want one for each of %d peers, and eight at most for the one that goes on asking", answers, total, peers)
	}
	if most > subsPerSec+len(all) {
		t.Errorf("%d buckets in one second, at most %d", most, subsPerSec)
	}
}

// TestNarrowingIsBounded has more peers ask than are remembered.
func TestNarrowingIsBounded(t *testing.T) {
	core, table := newBenchCore(t, 1, 1000)
	table.Apply(benchEvent(1))
	now := time.Now()
	for i := range 2 * maxJobs {
		tell(t, core, now, uint64(100+i), &SyncMessage{Type: Hello, To: 1, Partition: benchPart, Buckets: []byte{1}})
	}
	if len(core.subsAsked) != maxJobs {
		t.Errorf("%d wait, want %d", len(core.subsAsked), maxJobs)
	}
	core.Tick(now)
	core.Flush(now)
	core.Tick(now.Add(time.Second))
	for _, p := range core.peers.byID {
		if len(p.subsSent) > 0 {
			t.Fatal("what was told a second ago is still remembered")
		}
	}
}

// TestSmallBucketsDoNotWaitForLargeOnes has a peer differ in a large bucket and in
// a small one: the small one is wanted at once, and neither want ends the other.
func TestSmallBucketsDoNotWaitForLargeOnes(t *testing.T) {
	asker, mine := newBenchCore(t, 1, 100_000)
	answerer, theirs := newBenchCore(t, 2, 100_000)
	large, small := eventsOfBucket(7, 400), eventsOfBucket(8, 20)
	for i, ev := range append(large, small...) {
		theirs.Apply(ev)
		if i > 0 && i < 400 {
			mine.Apply(ev)
		}
	}
	now := time.Now()
	digest := theirs.Digest()
	tell(t, asker, now, 2, &SyncMessage{Type: DigestOf, Partition: benchPart, Sums: appendSums(nil, digest)})
	asker.Tick(now)
	var got []SyncType
	for _, m := range asker.Flush(now) {
		s, _ := DecodeSync(m.Payload)
		if s.Type == Want || len(s.Buckets) > 0 {
			got = append(got, s.Type)
			answerer.Receive(now, m)
		}
	}
	if len(got) != 2 || got[0] == got[1] {
		t.Fatalf("asked %v; want a hello for the large bucket, and a want for the small one at once", got)
	}
	tell(t, answerer, now, 1, &SyncMessage{Type: Want, To: 2, Partition: benchPart, Subs: []byte{7, 1}})
	if len(answerer.answers) != 2 {
		t.Errorf("%d answers in the making, want one for the small bucket and one for a part of the large one", len(answerer.answers))
	}
	for range 2 {
		tell(t, answerer, now, 1, &SyncMessage{Type: Want, To: 2, Partition: benchPart, Buckets: []byte{8}})
		tell(t, answerer, now, 1, &SyncMessage{Type: Want, To: 2, Partition: benchPart, Subs: []byte{7, 2}})
	}
	if len(answerer.answers) != 2 {
		t.Errorf("%d answers in the making; want the later ones in the place of the earlier", len(answerer.answers))
	}
}
