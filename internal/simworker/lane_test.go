package simworker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mooring/kvstate"
)

// idleLane is a lane that nobody runs, with an attached agent.
func idleLane(t *testing.T) *lane {
	t.Helper()
	w := newWorker(t, Config{BlockSize: 2, Events: KVEvents{Endpoint: "tcp://127.0.0.1:0"}})
	l := w.lanes[0]
	if err := w.bindLanes(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	l.agent = attachedAgent(t)
	return l
}

// step has the engine do something, in a batch of its own.
func (l *lane) step(changes ...[]change) {
	j := l.engine.ranks[0].journal
	for _, c := range changes {
		j.open = append(j.open, c...)
	}
	j.commit()
}

// emitted says what an agent has numbered, from an event on.
func emitted(a *agent, from uint64) string {
	var out []string
	for _, e := range a.mu.ring {
		if e.EventID >= from {
			out = append(out, fmt.Sprint(e.EventID, " ", e.Kind, " ", e.Tier))
		}
	}
	return strings.Join(out, ", ")
}

// What an engine did before it was detached, and was still queued then, counts
// for the host pool only.
func TestDetachDrains(t *testing.T) {
	l, c := idleLane(t), filled(2, namespace{})
	l.step(storing(c, 0, false), storing(c, 0, true))
	l.step(storing(c, 1, true))
	if err := l.detach(); err != nil {
		t.Fatal(err)
	}
	if got := emitted(l.agent, 2); got != "2 stored host_pinned, 3 stored host_pinned, 4 cleared device" {
		t.Error(got)
	}
}

// Draining takes what the old engine did, but nothing of the new one.
func TestDrainStopsAtTheNewEngine(t *testing.T) {
	l, c := idleLane(t), filled(2, namespace{})
	l.step(storing(c, 0, true))
	l.engine.restart(0)
	l.step(storing(c, 1, false))
	first, ok := l.drain()
	if !ok || first.epoch != 1 || len(first.changes) != 0 || len(l.batches()) != 1 {
		t.Errorf("%v, epoch %d, %d changes, %d batches left", ok, first.epoch, len(first.changes), len(l.batches()))
	}
	if got := emitted(l.agent, 2); got != "2 stored host_pinned" {
		t.Error(got)
	}
}

// A new engine is attached behind everything that the old one did.
func TestRestartAttachesAnew(t *testing.T) {
	l, c := idleLane(t), filled(2, namespace{})
	l.step(storing(c, 0, false), storing(c, 0, true))
	if err := l.restart(kvstate.Worker{WorkerID: 5}); err != nil {
		t.Fatal(err)
	}
	if got := emitted(l.agent, 2); got != "2 stored host_pinned, 3 cleared device, 4 cleared device" {
		t.Error(got)
	}
	if at := l.agent.mu.attachment; *at != (kvstate.AttachmentStatus{Generation: 2, Worker: kvstate.Worker{WorkerID: 5}, Ready: true, ReadyAtOutboundCursor: 4}) {
		t.Errorf("%+v", at)
	}
}

// A request that runs while the engine is replaced finishes, but what it
// computed is nobody's: it is neither published nor found by the next request.
func TestRequestOutlivesItsEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(t, Config{BlockSize: 4, FirstToken: time.Minute, Events: KVEvents{Endpoint: "tcp://127.0.0.1:0"}})
		const body = `{"prompt":"one two three four five six seven","max_tokens":1}`
		old := started(context.Background(), w, "/v1/completions", body)
		synctest.Wait()
		w.engine.restart(0)
		if rec := <-old; rec == nil || rec.Code != 200 {
			t.Errorf("the running request: %+v", rec)
		}
		batches := w.lanes[0].batches()
		if b := <-batches; len(b.changes) != 0 || len(batches) != 0 {
			t.Errorf("published: %+v and %d more", b, len(batches))
		}
		rec := ask(t, w.Handler(), "POST", "/v1/completions", body)
		if !strings.Contains(rec.Body.String(), `"cached_tokens":0`) {
			t.Errorf("the new engine knows the old one's blocks: %s", rec.Body)
		}
	})
}

// A long prompt comes in events of bounded size, which are one chain.
func TestLongPromptIsSplit(t *testing.T) {
	c := filled(2*maxEventBlocks+100, namespace{salt: "s"})
	j := newJournal(1)
	j.stored(c, []span{{0, len(c.keys)}}, false)
	enc := kvEncoder{blockSize: 2}
	blocks, tokens := 0, 0
	for i, e := range naiveBatch(t, enc.payload(time.Now(), j.open)).events {
		if len(e.hashes) > maxEventBlocks || (e.parent == nil) != (i == 0) || i > 0 && *e.parent != c.keys[blocks-1].external() {
			t.Errorf("event %d: %d blocks, parent %v", i, len(e.hashes), e.parent)
		}
		if salted := e.extraKeys.([]any)[0] != nil; salted != (i == 0) {
			t.Errorf("event %d: salted %v", i, salted)
		}
		blocks, tokens = blocks+len(e.hashes), tokens+len(e.tokens)
	}
	if blocks != len(c.keys) || tokens != len(c.tokens) {
		t.Errorf("%d blocks and %d tokens, want %d and %d", blocks, tokens, len(c.keys), len(c.tokens))
	}
}
