package replication

import (
	"testing"
	"time"
)

// Who finds itself among its peers leaves that one out, until somebody else speaks
// there: a name may come to mean another replica.
func TestSelfIsUnlearnt(t *testing.T) {
	plain := BindingEvent{ModelName: benchPart.Model, RoutingGroup: benchPart.Group, SessionID: "s", WorkerID: 7, DPRank: new(uint32), Sequence: 1, WriterID: 9}
	ours := plain
	ours.SenderID, ours.SenderSeq = 1, 2
	others := plain
	others.SenderID, others.SenderSeq = 2, 1
	sync := func(sender uint64) Message {
		return Message{Topic: TopicSync, Payload: AppendSync(nil, &SyncMessage{Type: Alive, SenderID: sender, SenderSeq: 1, WriterID: sender})}
	}
	event := func(e BindingEvent) Message { return Message{Topic: TopicV2, Payload: AppendEvent(nil, &e)} }
	for _, c := range []struct {
		name string
		msg  Message
		from string
		self string
	}{
		{"our own binding", event(ours), "e1", "e1"},
		{"our own sign of life from elsewhere", sync(1), "e2", "e2"},
		{"another's, from elsewhere", sync(2), "e2", "e1"},
		{"another's sign of life", sync(2), "e1", ""},
		{"another's binding", event(others), "e1", ""},
		{"a plain peer's binding", event(plain), "e1", ""},
	} {
		core, _ := newBenchCore(t, 1, 10)
		now := time.Now()
		first := sync(1)
		first.From, c.msg.From = "e1", c.from
		core.Receive(now, first)
		core.Receive(now, c.msg)
		status := Status{Peers: core.Peers(), Self: core.echoes}
		if status.Self != c.self {
			t.Errorf("after %s: self is %q, want %q", c.name, status.Self, c.self)
		}
		if n := len(status.At([]Link{{Endpoint: "e1", Connected: true, Since: now}})); (n == 0) != (c.self == "e1") {
			t.Errorf("after %s: %d peers at e1", c.name, n)
		}
	}
}
