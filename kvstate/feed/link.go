package feed

import (
	"context"
	"sync"
	"time"

	"mooring/internal/zmqsock"
)

// A link is what the subscriber says about its connection.
type link struct {
	changed chan struct{} // holds a token when there is news

	mu struct {
		sync.Mutex
		connected  bool
		connection uint64
		err        error // why it is not connected
	}
}

func (l *link) notify(e zmqsock.Event) {
	l.mu.Lock()
	l.mu.connected, l.mu.connection, l.mu.err = e.Connected, e.Connection, e.Err
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *link) now() (connected bool, connection uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.connected, l.mu.connection, l.mu.err
}

// outOfReach is how long an engine cannot be reached until that is a warning.
const outOfReach = 5 * time.Second

func (f *Feed) linkChanged(ctx context.Context) {
	connected, connection, err := f.link.now()
	if connection > f.connection {
		f.newConnection(ctx, connection)
	}
	if !connected && f.agent.Connected {
		f.agent.Connected, f.apart = false, time.Now()
		f.cfg.Logger.Debug("kv event feed lost")
		f.stopReplay()
		f.do(ctx, f.seq.lost())
	}
	if !connected && err != nil {
		f.agent.Settled = true
	}
	if !connected && err != nil && f.agent.LinkError == "" && time.Since(f.apart) >= outOfReach {
		f.agent.LinkError = err.Error()
		f.cfg.Logger.Warn("no kv events: the engine's publisher cannot be reached", "endpoint", f.cfg.Endpoint, "error", err)
	}
}

func (f *Feed) newConnection(ctx context.Context, connection uint64) {
	f.connection, f.topic = connection, nil
	if f.agent.Generation == 0 {
		f.attach()
	}
	f.agent.Connected, f.agent.LinkError = true, ""
	f.cfg.Logger.Debug("kv event feed connected", "endpoint", f.cfg.Endpoint)
	f.do(ctx, f.seq.connected())
}
