package extproc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"mooring/affinity"
)

// Every way in which a stream ends passes through here.

// gone ends a stream that Envoy is done with, or that cannot be read any more.
func (x *exchange) gone() error {
	last := x.lastError()
	x.readRest()
	if last != nil && !isDeparture(last) {
		kind := oddReceive
		if status.Code(last) == codes.ResourceExhausted {
			kind = oddMessage
		}
		x.metrics.oddities.WithLabelValues(kind).Inc()
		return last
	}
	if x.answered {
		return nil
	}
	x.metrics.oddities.WithLabelValues(oddClientGone).Inc()
	return status.Error(codes.Canceled, "the client left before the pick")
}

// lastError returns with what receiving ended; nil if it has not. Once the
// stream's own context has ended receiving is about to, and its error is the
// better one: gRPC ends the context for a message that is too large as well.
func (x *exchange) lastError() error {
	if x.stream.Context().Err() != nil {
		return <-x.last
	}
	select {
	case err := <-x.last:
		return err
	default:
		return nil
	}
}

// readRest takes from the messages that came before the end what they say about
// the response.
func (x *exchange) readRest() {
	for x.machine.phase == phasePassing {
		select {
		case m := <-x.inbox:
			x.note(x.machine.receive(m))
		default:
			return
		}
	}
}

// sendFailed ends a stream on which an answer could not be sent.
func (x *exchange) sendFailed(err error) error {
	if x.ctx.Err() != nil || isDeparture(err) {
		return x.gone()
	}
	x.metrics.oddities.WithLabelValues(oddSend).Inc()
	return err
}

// impatient ends a stream on which nothing has happened for too long.
func (x *exchange) impatient() error {
	switch {
	case !x.outbox.empty():
		x.metrics.oddities.WithLabelValues(oddStalled).Inc()
		return status.Error(codes.DeadlineExceeded, "the answers are not taken")
	case x.machine.phase == phasePassing:
		x.metrics.oddities.WithLabelValues(oddExpired).Inc()
		x.left = true
		if x.machine.requestDone() {
			return nil
		}
		return status.Error(codes.DeadlineExceeded, "the request does not end")
	case x.machine.phase == phaseStart:
		x.metrics.oddities.WithLabelValues(oddExpired).Inc()
		return status.Error(codes.DeadlineExceeded, "no request came")
	default:
		_, err := x.advance(x.machine.refuse(timedOut("the request's body did not arrive in time")))
		return err
	}
}

// close gives back all that the stream holds and that nobody else will.
func (x *exchange) close() {
	x.leave()
	x.clock.Stop()
	x.machine.drop()
	switch {
	case x.leased && !x.answered:
		x.ledger.end(x.lease, affinity.NeverSent, byFailedSend)
	case x.leased && x.cfg.End == Stream:
		x.ledger.end(x.lease, x.outcome(), byStream)
	case !x.leased && x.route != nil:
		x.route.Release(affinity.NeverSent)
	}
	x.log()
	x.endSpan()
}

// outcome says how the response ended, by what the stream showed of it. It counts
// only if nothing ended the lease before.
func (x *exchange) outcome() affinity.Outcome {
	mode := x.machine.protocol.response
	if x.left || mode == modeNone || mode == modeUnsaid {
		return affinity.Completed // its end could not be seen
	}
	return affinity.ClientAborted
}
