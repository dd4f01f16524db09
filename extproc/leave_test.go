package extproc

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"

	"mooring/affinity"
)

// A server that drains does not end a stream while the last of its answers is
// being sent: the request would lose the end of its body.
func TestLastAnswerIsSentBeforeTheStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		p := r.open()
		if n := len(p.ask(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false))); n != 1 {
			t.Fatalf("%d answers to the headers", n)
		}
		p.halt = make(chan struct{})
		p.ask(requestBodyMessage(make([]byte, directBytes), true))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.server.Drain(ctx)
		synctest.Wait()
		select {
		case err := <-p.result:
			t.Errorf("the stream ended before its last answer: %v", err)
		default:
			close(p.halt)
			if err := <-p.result; err != nil {
				t.Errorf("the stream ended with %v", err)
			}
		}
		if answers := p.take(); len(answers) != 1 || !answers[0].GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetEndOfStream() {
			t.Errorf("answers to the body: %v", answers)
		}
		r.server.ledger.end(1000, affinity.Completed, byAccessLog)
		r.clean()
	})
}

// Envoy has the pick, so the worker may have the request: that an answer behind
// it could not be sent does not undo it.
func TestPickStandsIfOnlyTheBodyCouldNotBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		p := r.open()
		p.breakAfter = 1
		p.ask(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false, "x-routing-group=two"), requestBodyMessage([]byte(`{"model":"a"}`), true))
		if err := <-p.result; !errors.Is(err, errBroken) {
			t.Errorf("the stream ended with %v", err)
		}
		if n := r.server.ledger.len(); n != 1 {
			t.Errorf("%d ends are awaited, want 1", n)
		}
		r.server.ledger.end(1000, affinity.Completed, byAccessLog)
		r.clean()
	})
}
