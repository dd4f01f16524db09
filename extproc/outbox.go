package extproc

import (
	"context"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

const (
	// directBytes is how much a stream sends without a goroutine of its own for
	// it: gRPC takes the first 64 KiB of a stream without blocking.
	directBytes = 32 << 10
	// answerBytes is what an answer weighs besides the body in it.
	answerBytes = 1 << 10
	// backlogBytes is when a stream that gives the body back stops taking more.
	backlogBytes = 256 << 10
)

// outbox sends a stream's answers in their order. The first ones are sent by the
// caller; what could block goes to a goroutine, through a queue. Owned by one
// goroutine; the other one touches only the channels.
type outbox struct {
	send    func(*extprocv3.ProcessingResponse) error
	direct  int // bytes sent by the caller
	pending []*extprocv3.ProcessingResponse
	backlog int                                // bytes in pending
	sending bool                               // the goroutine has an answer
	handed  chan *extprocv3.ProcessingResponse // to the goroutine; nil while there is none
	results chan error                         // capacity 1: from it, one for each answer
}

// put sends answers or queues them, and returns how many of them before the first
// that could not be sent. ctx ends the goroutine; it must end at the latest with
// the stream.
func (o *outbox) put(ctx context.Context, answers []*extprocv3.ProcessingResponse) (taken int, err error) {
	for i, a := range answers {
		n := weight(a)
		if o.handed == nil && o.direct+n <= directBytes {
			o.direct += n
			if err := o.send(a); err != nil {
				return i, err
			}
			continue
		}
		if o.handed == nil {
			o.start(ctx)
		}
		o.pending = append(o.pending, a)
		o.backlog += n
	}
	return len(answers), nil
}

func (o *outbox) start(ctx context.Context) {
	o.handed = make(chan *extprocv3.ProcessingResponse)
	o.results = make(chan error, 1)
	go func() {
		for {
			select {
			case a := <-o.handed:
				err := o.send(a)
				o.results <- err
				if err != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

// handOver returns where the next pending answer goes; nil if there is none or
// if the one before it is not sent.
func (o *outbox) handOver() chan<- *extprocv3.ProcessingResponse {
	if len(o.pending) == 0 || o.sending {
		return nil
	}
	return o.handed
}

// next returns the answer that is sent next, nil if there is none.
func (o *outbox) next() *extprocv3.ProcessingResponse {
	if len(o.pending) == 0 {
		return nil
	}
	return o.pending[0]
}

// pop forgets the answer that next returned, which was handed over. Its result
// comes through results; then the owner clears sending.
func (o *outbox) pop() {
	o.sending = true
	o.backlog -= weight(o.pending[0])
	o.pending[0] = nil
	o.pending = o.pending[1:]
}

// full reports whether enough is waiting.
func (o *outbox) full() bool { return o.backlog > backlogBytes }

// empty reports whether everything was sent.
func (o *outbox) empty() bool { return len(o.pending) == 0 && !o.sending }

func weight(a *extprocv3.ProcessingResponse) int {
	piece := a.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	if piece == nil {
		piece = a.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	}
	return answerBytes + len(piece.GetBody())
}
