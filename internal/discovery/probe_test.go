package discovery

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mooring/internal/fleet"
)

// serve starts a real server and returns its address.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestProbesOfRealServers(t *testing.T) {
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) {})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	listener.Close()

	tests := []struct {
		name    string
		address string
		want    cause
	}{
		{"200", serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.String() != "/health?deep=1" || r.Header.Get("User-Agent") != "mooring" {
				w.WriteHeader(http.StatusBadRequest)
			}
		}), passed},
		{"204", serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), passed},
		{"503", serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }), causeStatus},
		{"a redirect to one that is well", serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+elsewhere+"/", http.StatusFound)
		}), causeStatus},
		{"nobody", nobody, causeError},
		{"no answer", serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), causeTimeout},
		{"200 and an endless body", serve(t, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		}), passed},
		{"200 and a body that breaks off", serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}), passed},
		{"endless headers", serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 2*maxProbeHeader))
		}), causeError},
	}
	transport := newTransport(t.Context())
	defer transport.CloseIdleConnections()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			timeout := 200 * time.Millisecond
			if tt.want != causeTimeout {
				timeout = 10 * time.Second
			}
			got, err := probeOnce(t.Context(), transport, "http://"+tt.address+"/health?deep=1", timeout)
			if got != tt.want || (err == nil) != (tt.want == passed) {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestTheEnvironmentsProxyIsNotUsed(t *testing.T) {
	if newTransport(t.Context()).Proxy != nil {
		t.Error("probes go through a proxy")
	}
}

func TestADialEndsWithItsProbe(t *testing.T) {
	transport := newTransport(t.Context())
	defer transport.CloseIdleConnections()
	real := transport.DialContext
	deadlines := make(chan time.Time, 1)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		deadline, _ := ctx.Value(deadlineKey{}).(time.Time)
		deadlines <- deadline
		return real(ctx, network, address)
	}
	address := serve(t, func(http.ResponseWriter, *http.Request) {})
	before := time.Now()
	if c, err := probeOnce(t.Context(), transport, "http://"+address+"/", time.Minute); c != passed {
		t.Fatal(err)
	}
	if got := (<-deadlines).Sub(before); got < time.Minute || got > time.Minute+10*time.Second {
		t.Errorf("the dial's deadline is %v after the start of the probe, want that of the probe", got)
	}
	late := context.WithValue(t.Context(), deadlineKey{}, before)
	if conn, err := real(late, "tcp", address); !isTimeout(err) {
		t.Errorf("a dial after its deadline gave %v, %v", conn, err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestADialEndsWithRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	transport := newTransport(ctx)
	cancel()
	probing := context.WithValue(t.Context(), deadlineKey{}, time.Now().Add(time.Minute))
	if conn, err := transport.DialContext(probing, "tcp", serve(t, nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", conn, err)
	}
}

func TestDiscoveryOfARealWorkerLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	probes, opened, closed := make(chan struct{}), make(chan struct{}, 100), make(chan struct{}, 100)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case probes <- struct{}{}:
		case <-r.Context().Done():
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			opened <- struct{}{}
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	d := New(Config{Health: Health{Path: "/health", Interval: time.Millisecond, Timeout: time.Minute}})
	d.Update("static", []Spec{{ID: 1, Address: server.Listener.Addr().String()}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	for range 10 {
		<-probes
	}
	<-d.Settled()
	if w, ok := d.Live().View().Worker(1); !ok || w.State != fleet.Active {
		t.Errorf("the worker is %+v", w)
	}
	if n := len(opened); n != 1 {
		t.Errorf("10 probes took %d connections, want one", n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-closed // by Run, not by the server
}

func TestKeptConnectionsAreClosedWhenRunEnds(t *testing.T) {
	closed := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	d := New(Config{Health: Health{Path: "/health", Interval: time.Hour, Timeout: time.Minute}})
	d.Update("static", []Spec{{ID: 1, Address: server.Listener.Addr().String()}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	<-d.Settled() // the probe is over, its connection is kept
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	select {
	case <-closed:
	case <-time.After(keepConn / 2):
		t.Error("the connection outlived Run")
	}
}

func TestARealWorkerThatDiesIsUnhealthy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	d := New(Config{Health: Health{Path: "/health", Interval: time.Millisecond, Timeout: time.Minute}})
	d.Update("static", []Spec{{ID: 1, Address: server.Listener.Addr().String()}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	<-d.Settled()
	view, changed := d.Live().Snapshot()
	if w, ok := view.Worker(1); !ok || w.State != fleet.Active {
		t.Fatalf("the worker is %+v", w)
	}
	server.Listener.Close()
	server.CloseClientConnections()
	<-changed
	if w, ok := d.Live().View().Worker(1); !ok || w.State != fleet.Unhealthy {
		t.Errorf("the worker is %+v", w)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
