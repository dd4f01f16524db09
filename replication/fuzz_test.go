package replication

import (
	"testing"
	"time"

	"mooring/affinity"
)

// FuzzReceive gives a replica any payload on any topic, and lets it do what that
// makes it do: it answers with few messages, none too large.
func FuzzReceive(f *testing.F) {
	core, table := newBenchCore(f, 1, 1000)
	for i := range 500 {
		table.Apply(benchEvent(i))
	}
	digest := make([]byte, digestBytes)
	for i := range digest {
		digest[i] = byte(i)
	}
	for _, m := range []SyncMessage{
		{Type: Hello, SenderID: 2, SenderSeq: 1},
		{Type: Hello, SenderID: 2, SenderSeq: 2, To: 1, Partition: benchPart, Buckets: []byte{1, 2, 3}},
		{Type: DigestOf, SenderID: 2, SenderSeq: 3, Partition: benchPart, Sums: digest},
		{Type: DigestOf, SenderID: 2, SenderSeq: 4, To: 1, Partition: benchPart, Buckets: []byte{7}, Sums: digest},
		{Type: Want, SenderID: 2, SenderSeq: 5, To: 1, Partition: benchPart, Buckets: []byte{1}, Subs: []byte{2, 3, 2, 4}, Have: digest},
		{Type: Floor, SenderID: 2, SenderSeq: 6, Partition: benchPart, SessionID: "conversation-1", Sequence: 9, WriterID: 3, TTLMillis: 1000},
	} {
		f.Add(uint8(2), AppendSync(nil, &m))
	}
	f.Add(uint8(0), unhex(f, rankedHex))
	f.Add(uint8(1), unhex(f, workerOnlyHex))
	now := time.Now()
	f.Fuzz(func(t *testing.T, topic uint8, payload []byte) {
		now = now.Add(100 * time.Millisecond)
		core.Receive(now, Message{Topic: []string{TopicV1, TopicV2, TopicSync}[topic%3], Payload: payload})
		core.Tick(now)
		out := core.Flush(now)
		if len(out) > 2*repairBurst {
			t.Errorf("%d messages in answer to one", len(out))
		}
		for _, m := range out {
			if len(m.Payload) > MaxPayload {
				t.Errorf("a message of %d bytes", len(m.Payload))
			}
		}
		if n := len(core.peers.byID); n > maxPeers {
			t.Errorf("%d peers", n)
		}
		if d := table.Digest(); d == (affinity.Digest{}) {
			t.Error("all is forgotten")
		}
	})
}
