package simworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of a connection.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	maxStreams     = 1024 // of one HTTP/2 connection
)

// errDrain says that requests were cut off because Config.Drain had passed.
var errDrain = errors.New("drain: time is over, requests were cut off")

// Serve answers HTTP/1.1 and unencrypted HTTP/2 on a listener, which it
// closes, and publishes KV events. When ctx ends it stops accepting, lets running
// requests finish for up to Config.Drain, and then cuts the rest off, which is an
// error. It returns when no handler and no goroutine of its own runs any more.
func (w *Worker) Serve(ctx context.Context, ln net.Listener) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	lanes, err := w.startLanes(requests, ln)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	defer lanes.Wait() // after the cut below
	running := newGate()
	srv := w.server(requests, running.wrap(w.Handler()))
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	w.cfg.Ready(w.endpoints(ln))

	select {
	case err = <-served:
		err = fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
		err = w.drain(requests, srv)
		<-served
	}
	cut()
	_ = srv.Close()
	running.closeAndWait()
	return err
}

// drain waits for the running requests, but no longer than Config.Drain.
func (w *Worker) drain(ctx context.Context, srv *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Drain)
	defer cancel()
	err := srv.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return errDrain
	}
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}

func (w *Worker) server(requests context.Context, h http.Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(w.cfg.Logger.Handler(), slog.LevelDebug),
	}
}

// gate counts running handlers and can be closed. A sync.WaitGroup would not
// do: a request that was read just before its connection was closed may still
// come when the wait has begun.
type gate struct {
	mu      sync.Mutex
	running int  // guarded by mu
	closed  bool // guarded by mu
	empty   chan struct{}
}

func newGate() *gate { return &gate{empty: make(chan struct{})} }

// wrap lets requests through h until the gate is closed.
func (g *gate) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !g.enter() {
			panic(http.ErrAbortHandler)
		}
		defer g.leave()
		h.ServeHTTP(rw, r)
	})
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.closed && g.running == 0 {
		close(g.empty)
	}
}

// closeAndWait lets nobody in any more and returns when everybody has left. It
// is called once.
func (g *gate) closeAndWait() {
	g.mu.Lock()
	g.closed = true
	if g.running == 0 {
		close(g.empty)
	}
	g.mu.Unlock()
	<-g.empty
}
