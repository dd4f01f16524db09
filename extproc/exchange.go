package extproc

import (
	"context"
	"errors"
	"io"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"mooring/routing"
)

const (
	// inboxSize is how many messages are received ahead of being handled.
	inboxSize = 4
	// stallAfter is how long Envoy may take nothing of what is sent.
	stallAfter = time.Minute
)

// exchange is one ext_proc stream being served. Owned by its handler; receive
// runs beside it and touches only what says so.
type exchange struct {
	*Server
	stream extprocv3.ExternalProcessor_ProcessServer
	ctx    context.Context // ends when Envoy is done with the stream
	leave  context.CancelFunc
	inbox  chan *extprocv3.ProcessingRequest
	last   chan error // capacity 1: with what receiving ended

	machine machine
	outbox  outbox
	clock   *time.Timer // when to lose patience with the stream

	req      routing.Request
	encoding string
	key      joinKey
	subset   subset          // whom the gateway allows
	route    *routing.Route  // the pick; nil before
	lease    uint64          // its number in the ledger
	leased   bool            // the ledger has the route; before, it is ours to release
	answered bool            // the pick or a refusal was sent
	began    bool            // the response was seen to begin
	span     trace.Span      // of the request; nil before its first message and without tracing
	traced   context.Context // ctx with span
	left     bool            // we ended the stream, before the response did
	line     line
}

// Process serves one HTTP request's stream.
func (s *Server) Process(stream extprocv3.ExternalProcessor_ProcessServer) (err error) {
	if !s.mayPick() {
		s.metrics.oddities.WithLabelValues(oddNotReady).Inc()
		return status.Error(codes.Unavailable, "not ready")
	}
	s.live.Add(1)
	s.newest.Store(int64(time.Since(s.epoch)))
	s.metrics.streams.Inc()
	x := s.newExchange(stream)
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked("stream", p)
		}
		x.close()
		s.metrics.streams.Dec()
		if s.live.Add(-1) == 0 {
			s.nudge()
		}
	}()
	go x.receive()
	return x.run()
}

func (s *Server) newExchange(stream extprocv3.ExternalProcessor_ProcessServer) *exchange {
	x := &exchange{
		Server: s, stream: stream,
		inbox: make(chan *extprocv3.ProcessingRequest, inboxSize),
		last:  make(chan error, 1),
		clock: time.NewTimer(s.cfg.BodyTimeout),
	}
	x.ctx, x.leave = context.WithCancel(stream.Context())
	x.machine.limits = limits{body: s.cfg.MaxBodyBytes, held: s.held, pullBody: s.cfg.PullBody, header: s.cfg.ModelHeader}
	x.outbox.send = stream.Send
	return x
}

// receive hands messages over until there are no more. It ends at the latest
// when the handler has returned, which ends the stream's context.
func (x *exchange) receive() {
	x.last <- x.receiveAll()
	x.leave()
}

func (x *exchange) receiveAll() error {
	for {
		m, err := x.stream.Recv()
		if err != nil {
			return err
		}
		select {
		case x.inbox <- m:
		case <-x.ctx.Done():
			return x.ctx.Err()
		}
	}
}

// isDeparture reports whether a stream's error says that Envoy is done with it.
// Half-close, reset and a closed connection are one event: which of them arrives
// is a matter of timing, and none says how the request ended.
func isDeparture(err error) bool {
	return errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled || errors.Is(err, context.Canceled)
}

// run is the stream's loop. It returns nil only if the request was answered.
func (x *exchange) run() error {
	for {
		inbox := x.inbox
		if x.outbox.full() && !x.machine.requestDone() {
			inbox = nil // Envoy takes the body back too slowly: it must wait to send more
		}
		select {
		case m := <-inbox:
			x.identify(m)
			if done, err := x.advance(x.machine.receive(m)); done {
				return err
			}
		case x.outbox.handOver() <- x.outbox.next():
			x.outbox.pop()
		case err := <-x.outbox.results:
			if err != nil {
				return x.sendFailed(err)
			}
			x.outbox.sending = false
			x.sent()
		case <-x.ctx.Done():
			return x.gone()
		case <-x.clock.C:
			return x.impatient()
		case <-x.mayLeave():
			x.left = true
			return nil
		}
	}
}

// advance does what the machine says until it wants another message. done: the
// stream is over, with err.
func (x *exchange) advance(s step) (done bool, err error) {
	for {
		x.note(s)
		taken, err := x.outbox.put(x.ctx, s.send)
		// The pick comes first in its step: it may be sent although what is
		// behind it is not.
		x.answered = x.answered || taken > 0 && (x.leased || s.refusal != nil)
		if err != nil {
			return true, x.sendFailed(err)
		}
		x.sent()
		switch s.next {
		case nextReceive:
			return false, nil
		case nextExamine:
			s = x.examine()
		case nextPick:
			if s = x.pick(); x.ctx.Err() != nil && !x.leased {
				return true, x.gone()
			}
		case nextFail:
			return true, status.Error(codes.InvalidArgument, s.fault)
		case nextEnd:
			return true, nil
		}
	}
}

// sent looks whether everything is on its way, and winds the clock.
func (x *exchange) sent() {
	switch {
	case !x.outbox.empty():
		x.clock.Reset(stallAfter)
	case x.machine.phase == phasePassing:
		x.machine.settle()
		x.clock.Reset(x.cfg.MaxRequestTime)
	}
}

// mayLeave returns a channel that is closed when this stream may end although
// Envoy has not ended it. Only a stream whose request is on its way may: Envoy
// goes on without it.
//
// Where the access log tells of the end there is nothing to stay for. Envoy ends
// such streams itself, except those with a buffered body: left open, they would
// tie the client's response to this process.
func (x *exchange) mayLeave() <-chan struct{} {
	switch {
	case x.machine.phase != phasePassing || !x.machine.requestDone() || !x.outbox.empty() || x.machine.protocol.response == modeDuplex:
		return nil
	case x.cfg.End == Stream:
		return x.closing // its end is worth waiting for
	case x.machine.plainBody():
		return alwaysClosed
	default:
		return x.draining
	}
}

// alwaysClosed is a channel that never blocks. Nobody writes to it.
var alwaysClosed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()
