package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// Bounds of the HTTP server. The largest answer, 10,000 sessions, is a few MiB.
const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 15 * time.Second
	writeTimeout   = 60 * time.Second
	idleTimeout    = 2 * time.Minute
	endTimeout     = 5 * time.Second // for answers under way when Serve is told to end
	maxHeaderBytes = 64 << 10
	maxConnections = 512 // further ones wait to be accepted
)

// Serve answers HTTP on listener until ctx ends, and returns when every
// connection has ended: answers under way get 5 s, then they are cut. It closes
// the listener. The error is nil if ctx ended it.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	var connections sync.WaitGroup
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
		// Shutdown and Close don't wait for the goroutines of the connections
		// that they close; this does. StateNew comes from the accepting goroutine.
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				connections.Add(1)
			case http.StateClosed:
				connections.Done()
			}
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(listener, maxConnections)) }()
	select {
	case err := <-ended:
		server.Close()
		connections.Wait()
		return fmt.Errorf("serve admin HTTP: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := server.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		server.Close()
	}
	<-ended
	connections.Wait()
	return nil
}
