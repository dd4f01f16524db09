package replication

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"mooring/affinity"
)

// TestRepairKeepsToItsBudget has a replica that knows nothing ask for 25,000
// bindings: no second brings more than 20,000, and none comes twice.
func TestRepairKeepsToItsBudget(t *testing.T) {
	const records, step = 25_000, 20 * time.Millisecond
	joiner, table := newBenchCore(t, 1, records)
	full, other := newBenchCore(t, 2, records)
	for i := range records {
		other.Apply(benchEvent(i))
	}
	var sent []int // in each step
	start := time.Now()
	for now := start; now.Before(start.Add(2 * time.Second)); now = now.Add(step) {
		n := 0
		joiner.Tick(now)
		for _, m := range joiner.Flush(now) {
			full.Receive(now, m)
		}
		full.Tick(now)
		for _, m := range full.Flush(now) {
			if m.Topic == TopicV2 {
				n++
			}
			joiner.Receive(now, m)
		}
		sent = append(sent, n)
	}
	total, most := 0, 0
	for i, n := range sent {
		total += n
		second := 0
		for _, n := range sent[max(0, i-49) : i+1] {
			second += n
		}
		most = max(most, second)
	}
	if total != records || most > repairPerSec || table.Digest() != other.Digest() {
		t.Errorf("%d records sent, %d in one second, at most %d in 20ms; want %d, at most %d", total, most, slices.Max(sent), records, repairPerSec)
	}
	if len(full.answers) != 0 || len(joiner.asks) != 0 {
		t.Errorf("%d answers and %d wants are not done", len(full.answers), len(joiner.asks))
	}
}

// TestWhatPeersAskForIsBounded has far more peers than there are ask at once, and
// tell what nobody takes.
func TestWhatPeersAskForIsBounded(t *testing.T) {
	core, table := newBenchCore(t, 1, 1000)
	table.Apply(benchEvent(1))
	now := time.Now()
	from := func(sender int, m SyncMessage) {
		t.Helper()
		m.SenderID, m.SenderSeq, m.To, m.Partition = uint64(100+sender), 1, 1, benchPart
		if got := core.Receive(now, Message{Topic: TopicSync, Payload: AppendSync(nil, &m)}); got != Synced {
			t.Fatalf("%v of sender %d: %v", m.Type, sender, got)
		}
	}
	for i := range 2 * maxJobs {
		from(i, SyncMessage{Type: Want, Buckets: []byte{1}})
	}
	if len(core.answers) != maxJobs {
		t.Errorf("%d answers are in the making, want %d", len(core.answers), maxJobs)
	}

	core.answers = nil
	have := make([]byte, MaxPayload-1024)
	largest := 8 * len(newSumSet(have).places)
	for i := range 16 {
		from(i, SyncMessage{Type: Want, Buckets: []byte{1}, Have: have})
	}
	if n := len(core.answers); n*largest < maxHaveBytes || n*largest >= maxHaveBytes+largest {
		t.Errorf("%d answers remember %d bytes, want %d or little more", n, n*largest, maxHaveBytes)
	}

	e := BindingEvent{ModelName: benchPart.Model, RoutingGroup: benchPart.Group, WorkerID: 7, Sequence: math.MaxUint64}
	for i := range 2 * maxRefused {
		e.SessionID = fmt.Sprint("poison-", i)
		if got := core.Apply(now, benchPart, &e); got != ClockRejected {
			t.Fatal(got)
		}
	}
	if len(core.refused) != maxRefused {
		t.Errorf("%d refused records are remembered, want %d", len(core.refused), maxRefused)
	}
}

// TestRecordIsSentOnceASecond has two peers want the same record again and again:
// all hear each of its sendings, so one a second is enough.
func TestRecordIsSentOnceASecond(t *testing.T) {
	core, table := newBenchCore(t, 1, 1000)
	ev := benchEvent(1)
	table.Apply(ev)
	start := time.Now()
	var sent []time.Duration
	for at := time.Duration(0); at <= 2500*time.Millisecond; at += 100 * time.Millisecond {
		now := start.Add(at)
		tell(t, core, now, 2+uint64(at/(100*time.Millisecond)%2), &SyncMessage{Type: Want, To: 1, Partition: benchPart, Buckets: []byte{affinity.BucketOf(ev.Session)}})
		core.Tick(now)
		for _, m := range core.Flush(now) {
			if m.Topic == TopicV2 {
				sent = append(sent, at)
			}
		}
	}
	if !slices.Equal(sent, []time.Duration{0, time.Second, 2 * time.Second}) {
		t.Errorf("wanted each 100ms, it was sent at %v; want once a second", sent)
	}
}
