package simworker

import (
	"context"

	"mooring/kvstate"
)

// lane is everything behind the engine of one rank that follows its changes, in
// their order: the KV events and the state agent. One goroutine, run, does it
// all.
type lane struct {
	engine   *engine
	rank     int
	stream   *kvStream
	agent    *agent // nil: none
	commands chan func()

	epoch uint64 // of the last batch; owned by run
}

// run follows the changes until ctx ends, then closes the sockets.
func (l *lane) run(ctx context.Context) {
	defer l.close()
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-l.batches():
			l.take(b)
		case command := <-l.commands:
			command()
		}
	}
}

func (l *lane) batches() <-chan batch { return l.engine.ranks[l.rank].journal.batches }

func (l *lane) close() {
	if l.agent != nil {
		l.agent.close()
	}
	l.stream.close()
}

// do has run call a function and returns what it returned. It blocks until then
// or until ctx ends; nothing is called unless run runs.
func (l *lane) do(ctx context.Context, what func() error) error {
	done := make(chan error, 1)
	select {
	case l.commands <- func() { done <- what() }:
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-done
}

// take publishes a batch.
func (l *lane) take(b batch) {
	l.epoch = b.epoch
	l.stream.publish(b)
	if l.agent != nil {
		l.agent.apply(b.changes)
	}
}

// detach ends the attachment of an engine, behind all that it did.
func (l *lane) detach() error {
	if !l.agent.attached() {
		return errDetached
	}
	err := l.agent.beginDetach()
	first, ok := l.drain()
	l.agent.endDetach()
	if ok {
		l.take(first)
	}
	return err
}

// restart replaces the engine and attaches the new one to the agent.
func (l *lane) restart(worker kvstate.Worker) error {
	if l.agent == nil {
		l.engine.restart(l.rank)
		return nil
	}
	attached := l.agent.attached()
	if attached {
		if err := l.agent.beginDetach(); err != nil {
			return err
		}
	}
	l.engine.restart(l.rank)
	first, ok := l.drain()
	if attached {
		l.agent.endDetach()
	}
	err := l.agent.attach(worker)
	if ok {
		l.take(first)
	}
	return err
}

// drain takes the batches that wait now. It returns the first one of a newer
// engine, if there is one.
func (l *lane) drain() (first batch, ok bool) {
	for {
		select {
		case b := <-l.batches():
			if b.epoch != l.epoch {
				return b, true
			}
			l.take(b)
		default:
			return batch{}, false
		}
	}
}
