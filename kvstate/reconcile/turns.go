package reconcile

import (
	"context"
	"sync"
)

// turns bounds how many calls are under way, to one host and altogether: a host
// that does not answer leaves room for the others. It is safe for concurrent use.
type turns struct {
	all  chan struct{} // one for each call under way
	each int           // to one host at once

	mu struct {
		sync.Mutex
		hosts map[string]*hostTurns // those that somebody calls or waits for
	}
}

// hostTurns is the calls to one host.
type hostTurns struct {
	underWay chan struct{} // one for each call
	users    int           // under way or waiting; guarded by turns.mu
}

func newTurns(all, each int) *turns {
	t := &turns{all: make(chan struct{}, all), each: each}
	t.mu.hosts = make(map[string]*hostTurns)
	return t
}

// take waits until it is a call's turn, first at its host, so that who waits there
// holds up nobody else. Whoever gets a turn gives it back by done. An error is that
// of ctx.
func (t *turns) take(ctx context.Context, host string) (done func(), err error) {
	h := t.enter(host)
	select {
	case h.underWay <- struct{}{}:
	case <-ctx.Done():
		t.leave(host)
		return nil, ctx.Err()
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		<-h.underWay
		t.leave(host)
		return nil, ctx.Err()
	}
	return func() {
		<-t.all
		<-h.underWay
		t.leave(host)
	}, nil
}

func (t *turns) enter(host string) *hostTurns {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.mu.hosts[host]
	if h == nil {
		h = &hostTurns{underWay: make(chan struct{}, t.each)}
		t.mu.hosts[host] = h
	}
	h.users++
	return h
}

func (t *turns) leave(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.mu.hosts[host]
	if h.users--; h.users == 0 {
		delete(t.mu.hosts, host)
	}
}
