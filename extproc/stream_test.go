package extproc

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"mooring/affinity"
	"mooring/internal/fleet"
)

// ask runs one stream to where it waits and returns its answers.
func (p *pipe) ask(messages ...*extprocv3.ProcessingRequest) []*extprocv3.ProcessingResponse {
	for _, m := range messages {
		select {
		case p.in <- m:
		case <-p.ctx.Done():
		}
	}
	synctest.Wait()
	return p.take()
}

// A client that leaves while its pick waits for another request's is let go at
// once, whichever way Envoy says so.
func TestClientLeavesWhileThePickWaits(t *testing.T) {
	for _, graceful := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			table, _ := r.sessions.Table(fleet.Partition{Model: "m", Group: fleet.DefaultName})
			turn, err := table.Acquire(t.Context(), "s", fleet.Target{})
			if err != nil {
				t.Fatal(err)
			}
			p := r.open()
			began := time.Now()
			if answers := p.ask(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false, "x-session-id=s"), requestBodyMessage([]byte("a"), false)); len(answers) != 0 {
				t.Fatalf("answered before the pick: %v", answers)
			}
			if graceful {
				close(p.in)
			} else {
				p.reset()
			}
			if err := <-p.result; status.Code(err) != codes.Canceled {
				t.Errorf("ended with %v", err)
			}
			if waited := time.Since(began); waited != 0 {
				t.Errorf("left only after %v", waited)
			}
			turn.Release(affinity.NeverSent)
			r.clean()
			if r.oddities(oddClientGone) != 1 {
				t.Error("not counted")
			}
		})
	}
}

func TestPickHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		table, _ := r.sessions.Table(fleet.Partition{Model: "m", Group: fleet.DefaultName})
		turn, err := table.Acquire(t.Context(), "s", fleet.Target{})
		if err != nil {
			t.Fatal(err)
		}
		p := r.open()
		p.in <- firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s")
		if err := <-p.result; err != nil {
			t.Fatal(err)
		}
		checkRefusal(t, p.take()[0].GetImmediateResponse(), 503, "deadline", "")
		turn.Release(affinity.NeverSent)
		r.clean()
	})
}

func TestBodyThatNeverComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		p := r.open()
		p.ask(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false, "x-routing-group=two", "content-length=10"))
		if err := <-p.result; err != nil {
			t.Fatal(err)
		}
		checkRefusal(t, p.take()[0].GetImmediateResponse(), 503, "deadline", "body")
		silent := r.open()
		if err := <-silent.result; status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a stream without a message ended with %v", err)
		}
		r.clean()
	})
}

// An Envoy that takes nothing back does not stop us from receiving, up to a bound;
// then it has to wait itself; and if it never goes on, the stream is given up.
func TestSlowWorkerHoldsTheBodyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		p := r.open()
		p.ask(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false))
		p.halt = make(chan struct{})
		const piece = 50_000
		taken := 0
		for ; taken < 100; taken++ {
			select {
			case p.in <- requestBodyMessage(make([]byte, piece), false):
				synctest.Wait()
				continue
			default:
			}
			break
		}
		if held := taken * piece; held < backlogBytes || held > backlogBytes+(inboxSize+3)*piece {
			t.Errorf("%d bytes were taken while nothing went out", held)
		}
		close(p.halt)
		back := 0
		for _, a := range p.ask(requestBodyMessage(nil, true)) {
			back += len(a.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody())
		}
		if back != taken*piece {
			t.Errorf("%d bytes came back of %d", back, taken*piece)
		}
		p.reset()
		if err := <-p.result; err != nil {
			t.Error(err)
		}
	})
}

func TestStalledStreamIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		p := r.open()
		p.ask(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false))
		p.halt = make(chan struct{})
		p.ask(requestBodyMessage(make([]byte, 200_000), true))
		began := time.Now()
		if err := <-p.result; status.Code(err) != codes.DeadlineExceeded || time.Since(began) != stallAfter {
			t.Errorf("ended after %v with %v", time.Since(began), err)
		}
		if r.oddities(oddStalled) != 1 {
			t.Error("not counted")
		}
	})
}

// The answer that cannot be sent means that the request never reached a worker.
func TestPickThatCannotBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		p := r.open()
		p.halt = make(chan struct{})
		p.ask(firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s"))
		if n := r.server.ledger.len(); n != 1 {
			t.Errorf("%d leases", n)
		}
		p.reset()
		if err := <-p.result; status.Code(err) != codes.Canceled {
			t.Errorf("ended with %v", err)
		}
		r.clean()
		if entries, _ := r.sessions.List(affinity.Filter{}, "", 1); len(entries) != 0 {
			t.Error("the session is bound although nobody served it")
		}
	})
}

func TestPanicIsAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.server.router = nil // the next use of it panics
		p := r.open()
		p.ask(firstMessage(filterv3.ProcessingMode_NONE, true))
		if err := <-p.result; status.Code(err) != codes.Internal {
			t.Errorf("ended with %v", err)
		}
		if n := value(t, r.server.metrics.panics); n != 1 {
			t.Errorf("%v panics counted", n)
		}
	})
}

// Ends by the stream: at the response's end, not before, and once.
func TestResponseEndsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.End = Stream })
		p := r.open()
		first := firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s")
		first.ProtocolConfig.ResponseBodyMode = filterv3.ProcessingMode_STREAMED
		p.ask(first, responseHeadersMessage(false, ":status=200"), responseBodyMessage([]byte("a"), false))
		if r.load() != 1 {
			t.Error("ended before its response")
		}
		p.ask(responseBodyMessage(nil, true))
		r.server.ledger.end(r.server.cfg.FirstLease, affinity.UpstreamFailed, byAccessLog)
		if r.load() != 0 {
			t.Error("not ended with its response")
		}
		p.reset()
		<-p.result
		r.clean()
		if n := value(t, r.server.metrics.ends.WithLabelValues("completed", byStream)); n != 1 {
			t.Errorf("%v ends by the stream", n)
		}
	})
}

func TestStreamThatEndsBeforeItsResponse(t *testing.T) {
	for mode, want := range map[filterv3.ProcessingMode_BodySendMode]affinity.Outcome{
		filterv3.ProcessingMode_STREAMED: affinity.ClientAborted,
		filterv3.ProcessingMode_NONE:     affinity.Completed, // its end cannot be seen
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.End = Stream })
			p := r.open()
			first := firstMessage(filterv3.ProcessingMode_NONE, true)
			first.ProtocolConfig.ResponseBodyMode = mode
			p.ask(first, responseHeadersMessage(false, ":status=200"))
			p.reset()
			<-p.result
			r.clean()
			if n := value(t, r.server.metrics.ends.WithLabelValues(want.String(), byStream)); n != 1 {
				t.Errorf("%v: not %v", mode, want)
			}
		})
	}
}

// One line for a misconfiguration, however many requests meet it; one debug line
// a request, without the session's id.
func TestLogLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := newRig(t, func(c *Config) {
			c.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		for range 3 {
			p := r.open()
			p.ask(firstMessage(filterv3.ProcessingMode_GRPC, true))
			<-p.result
		}
		p := r.open()
		p.ask(firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=secret"))
		p.reset()
		<-p.result
		text := out.String()
		if n := strings.Count(text, "level=ERROR"); n != 1 {
			t.Errorf("%d errors, want 1:\n%s", n, text)
		}
		if n := strings.Count(text, "msg=request "); n != 4 || strings.Contains(text, "secret") || !strings.Contains(text, affinity.HashSession("secret")) {
			t.Errorf("request lines:\n%s", text)
		}
		if strings.Contains(text, "level=WARN") {
			t.Error("a client that leaves is no warning")
		}
	})
}

// What Envoy may do to end a stream is no error.
func TestDepartures(t *testing.T) {
	for _, err := range []error{io.EOF, context.Canceled, status.Error(codes.Canceled, "reset")} {
		if !isDeparture(err) {
			t.Errorf("%v is an error", err)
		}
	}
	if isDeparture(status.Error(codes.ResourceExhausted, "")) {
		t.Error("a message that is too large is a departure")
	}
}

// What is told apart when complaining is bounded, since Envoy's peer names it.
func TestComplaintsAreBounded(t *testing.T) {
	var c complaints
	now := time.Unix(1, 0)
	for n := range 1000 {
		c.due(strconv.Itoa(n), now)
	}
	if len(c.last) != maxComplaints {
		t.Errorf("%d are remembered", len(c.last))
	}
	if c.due("0", now.Add(complainEvery-1)) || !c.due("0", now.Add(complainEvery)) {
		t.Error("want one line a minute")
	}
}

// TestNoBodyIsAskedForBesideAFullDuplexResponse: Envoy takes no override of the
// request's mode there and would answer 503 without a word.
func TestNoBodyIsAskedForBesideAFullDuplexResponse(t *testing.T) {
	s := serve(t, func(c *Config) { c.PullBody = true })
	first := firstMessage(filterv3.ProcessingMode_NONE, false, "x-routing-group=two")
	first.ProtocolConfig.ResponseBodyMode = filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
	stream := s.process(t.Context())
	sendAll(t, stream, first)
	answer := must[*extprocv3.ProcessingResponse](t)(stream.Recv())
	if code := answer.GetImmediateResponse().GetStatus().GetCode(); code != 400 {
		t.Errorf("answer %v, want a refusal with 400", answer)
	}
}
