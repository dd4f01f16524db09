package replication_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mooring/internal/zmqsock"
	"mooring/replication"
)

func TestMeshCarriesBindingsBothWays(t *testing.T) {
	a := startNode(t, 1, free)
	b := startNode(t, 2, free, a.endpoint(t))
	if err := a.mesh.SetPeers([]string{b.endpoint(t), a.endpoint(t)}); err != nil { // its own is skipped
		t.Fatal(err)
	}
	for _, n := range []*node{a, b} {
		if by := joined(t, n); by != replication.JoinedByDigest {
			t.Errorf("joined by %v, want digest", by)
		}
	}
	a.bind(t, "from a", 1)
	b.bind(t, "from b", 2)
	eventually(t, "the bindings are at both", func() bool { return b.has("from a", 1) && a.has("from b", 2) })
	if links := a.mesh.Links(); len(links) != 1 || links[0].Endpoint != b.endpoint(t) || !links[0].Connected {
		t.Errorf("links of a: %+v", links)
	}
	eventually(t, "a knows who is at b's endpoint", func() bool {
		status := a.runner.Status()
		p := status.At(a.mesh.Links())[0]
		return p.SenderID == 2 && p.WriterID == 2 && p.Holes == 0 && p.Differing == 0 && !p.ConvergedSince.IsZero()
	})
}

// Its own address by another name, as in a list of names that all replicas share.
func TestMeshWithItselfAmongThePeers(t *testing.T) {
	a := startNode(t, 1, free)
	alias := strings.Replace(a.endpoint(t), "127.0.0.1", "localhost", 1)
	b := startNode(t, 2, free, a.endpoint(t))
	a.mesh.SetPeers([]string{alias, b.endpoint(t)})
	if by := joined(t, a); by != replication.JoinedByDigest {
		t.Errorf("joined by %v, want digest", by)
	}
	a.bind(t, "s", 1)
	eventually(t, "at b", func() bool { return b.has("s", 1) })
	for _, p := range a.runner.Status().Peers {
		if p.SenderID != 2 {
			t.Errorf("a takes itself for a peer: %+v", p)
		}
	}
	if !a.has("s", 1) || !a.mesh.Links()[0].Connected {
		t.Errorf("links %+v", a.mesh.Links())
	}
}

// A joiner must not take the answer of another joiner, who has nothing, for the
// whole: here the full replica answers last.
func TestJoinWaitsForThePeerThatHasAll(t *testing.T) {
	full := startNode(t, 1, free)
	const sessions = 2000
	for i := range sessions {
		full.bind(t, fmt.Sprint("s", i), 3)
	}
	empty := startNode(t, 2, free)
	late := startNode(t, 3, free, empty.endpoint(t), full.endpoint(t))
	empty.mesh.SetPeers([]string{late.endpoint(t)})
	full.mesh.SetPeers([]string{late.endpoint(t)})
	if by := joined(t, late); by != replication.JoinedByDigest {
		t.Fatalf("joined by %v, want digest", by)
	}
	for i := range sessions {
		if !late.has(fmt.Sprint("s", i), 3) {
			t.Fatalf("session %d is missing when the replica says that it is ready", i)
		}
	}
}

// While bindings flow digests differ all the time, by what is on its way. That
// keeps nobody from being ready by what it has, and not by time.
func TestJoinWhileBindingsFlow(t *testing.T) {
	full := startNode(t, 1, free)
	for i := range 1000 {
		full.bind(t, fmt.Sprint("before", i), 3)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil && i < 60_000; i++ {
			full.bind(t, fmt.Sprint("meanwhile", i), 2)
			if i%20 == 19 {
				time.Sleep(time.Millisecond) // 20,000 a second at most
			}
		}
	}()
	defer func() { cancel(); <-done }()
	late := startNode(t, 2, free, full.endpoint(t))
	full.mesh.SetPeers([]string{late.endpoint(t)})
	if by := joined(t, late); by != replication.JoinedByDigest {
		t.Errorf("joined by %v, want digest", by)
	}
	for i := range 1000 {
		if !late.has(fmt.Sprint("before", i), 3) {
			t.Fatalf("session %d is missing when the replica says that it is ready", i)
		}
	}
}

// What is bound just before the end is still sent.
func TestStopSendsWhatWaits(t *testing.T) {
	a := startNode(t, 1, free)
	b := startNode(t, 2, free, a.endpoint(t))
	a.mesh.SetPeers([]string{b.endpoint(t)})
	joined(t, a)
	joined(t, b)
	for i := range 500 {
		a.bind(t, fmt.Sprint("last", i), 1)
	}
	a.stop()
	eventually(t, "all 500 at b", func() bool {
		for i := range 500 {
			if !b.has(fmt.Sprint("last", i), 1) {
				return false
			}
		}
		return true
	})
}

func TestPeersChangeWithoutDisturbingOthers(t *testing.T) {
	a := startNode(t, 1, free)
	stay, leave := startNode(t, 2, free), startNode(t, 3, free)
	connected := func(n *node) func() bool {
		return func() bool {
			return slices.ContainsFunc(a.mesh.Links(), func(l replication.Link) bool { return l.Endpoint == n.endpoint(t) && l.Connected })
		}
	}
	a.mesh.SetPeers([]string{stay.endpoint(t), leave.endpoint(t)})
	eventually(t, "both connected", func() bool { return connected(stay)() && connected(leave)() })
	since := a.mesh.Links()[0].Since
	come := startNode(t, 4, free)
	a.mesh.SetPeers([]string{come.endpoint(t), stay.endpoint(t)})
	eventually(t, "the new one connected", connected(come))
	links := a.mesh.Links()
	if len(links) != 2 || links[1].Since != since || !links[1].Connected {
		t.Errorf("links %+v; want the second undisturbed since %v", links, since)
	}
	leave.bind(t, "unheard", 1)
	i := 0
	eventually(t, "the new one is heard", func() bool { // what came before the subscription is lost: nobody here repairs it
		i++
		come.bind(t, fmt.Sprint("heard", i), 1)
		return a.has("heard1", 1) || a.has(fmt.Sprint("heard", i-1), 1)
	})
	if a.has("unheard", 1) {
		t.Error("a peer that was removed is still heard")
	}
	if err := a.mesh.SetPeers([]string{"tcp://no port"}); err == nil || len(a.mesh.Links()) != 2 {
		t.Errorf("a wrong endpoint: %v, %d links", err, len(a.mesh.Links()))
	}
}

// The port is taken: the replica hears its peers and binds when the port is free.
func TestBusyPortIsTriedAgain(t *testing.T) {
	owner := startNode(t, 1, free)
	where := owner.endpoint(t)
	peer := startNode(t, 2, free)
	n := startNode(t, 3, where, peer.endpoint(t))
	if e, err := n.mesh.Endpoint(); err == nil {
		t.Fatalf("bound to %s, which is taken", e)
	}
	i := 0
	eventually(t, "a binding of a peer", func() bool { // what came before the subscription is repaired once the port is bound
		i++
		peer.bind(t, fmt.Sprint("s", i), 2)
		return n.has(fmt.Sprint("s", i-1), 2)
	})
	owner.stop()
	eventually(t, "the port is bound", func() bool { _, err := n.mesh.Endpoint(); return err == nil })
	peer.mesh.SetPeers([]string{where})
	n.bind(t, "t", 1)
	eventually(t, "the peer hears", func() bool { return peer.has("t", 1) })
}

// Rejoin after a Reset: nothing that came before counts as an answer.
func TestRejoinWaitsForNewAnswers(t *testing.T) {
	a := startNode(t, 1, free)
	b := startNode(t, 2, free, a.endpoint(t))
	a.mesh.SetPeers([]string{b.endpoint(t)})
	joined(t, a)
	joined(t, b)
	b.mesh.Reset()
	if err := b.runner.Rejoin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.runner.Status().Join; got != replication.Joining {
		t.Errorf("after Rejoin: %v, want joining", got)
	}
	if by := joined(t, b); by != replication.JoinedByDigest {
		t.Errorf("joined again by %v, want digest", by)
	}
}

// What is none of ours costs itself and a counter; the connection stays.
func TestForeignMessagesAreRefused(t *testing.T) {
	p, err := zmqsock.Listen(t.Context(), zmqsock.PublisherConfig{Endpoint: free})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	n := startNode(t, 1, free, p.Endpoint())
	event := func(session string) []byte {
		e := plainEvent(session, 1, 1, 9)
		return replication.AppendEvent(nil, &e)
	}
	topic := []byte(replication.TopicV2)
	eventually(t, "subscribed", func() bool { return p.Stats().Peers == 1 })
	eventually(t, "the good one among the bad", func() bool {
		for _, frames := range [][][]byte{
			{topic}, {[]byte(replication.TopicV2 + "x"), event("another topic")}, {topic, event("more frames"), nil, nil},
			{topic, make([]byte, replication.MaxPayload+1)}, {topic, []byte("garbage")},
			{[]byte(replication.TopicSync), []byte("\x81\xa4type\xa7unknown")}, {topic, event("s")},
		} {
			if err := p.Publish(frames); err != nil {
				t.Fatal(err)
			}
		}
		return n.has("s", 1)
	})
	for _, session := range []string{"another topic", "more frames"} {
		if n.has(session, 1) {
			t.Errorf("a message with %s was taken", session)
		}
	}
	if links := n.mesh.Links(); !links[0].Connected || p.Stats().Accepted != 1 {
		t.Errorf("links %+v after %d connections; want the first", links, p.Stats().Accepted)
	}
}
