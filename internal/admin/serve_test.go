package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"mooring/affinity"
	"mooring/internal/admin"
)

// serve runs Serve until the test or stop ends it, and returns its address.
func serve(t *testing.T, handler http.Handler) (address string, stop context.CancelFunc, ended <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		result <- admin.Serve(ctx, listener, handler)
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return listener.Addr().String(), cancel, result
}

func TestServeLetsAnswersUnderWayFinish(t *testing.T) {
	defer goleak.VerifyNone(t)
	inside, finish := make(chan struct{}), make(chan struct{})
	address, stop, ended := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(inside)
		<-finish
		io.WriteString(w, "whole")
	}))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	type answer struct {
		body string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		response, err := (&http.Client{Transport: transport}).Get("http://" + address)
		if err != nil {
			answers <- answer{"", err}
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		answers <- answer{string(body), err}
	}()
	<-inside
	stop()
	select {
	case err := <-ended:
		t.Fatalf("Serve returned %v with an answer under way", err)
	default:
	}
	close(finish)
	if a := <-answers; a.body != "whole" || a.err != nil {
		t.Errorf("got %q, %v", a.body, a.err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve returned %v, want nil", err)
	}
}

func TestServeTellsWhyItEndedByItself(t *testing.T) {
	defer goleak.VerifyNone(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := admin.Serve(context.Background(), listener, http.NotFoundHandler()); err == nil || !strings.Contains(err.Error(), "admin HTTP") {
		t.Errorf("got %v", err)
	}
}

// TestServeBoundsHeaders also sees that a path on the wire reaches the handler
// as it was written: no cleaning, no redirect.
func TestServeBoundsHeaders(t *testing.T) {
	r := newReplica(t, smallFleet(), affinity.Config{})
	r.pin("qwen", "batch", "%2E%2E", "9")
	address, _, _ := serve(t, r.handler)
	for _, tt := range []struct{ request, want string }{
		{"GET /v1/sessions/qwen/batch/.. HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "200"},
		{"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "403"},
		{"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", "431"},
	} {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(connection, tt.request) // an error: refused before all was read, and the answer tells
		status, err := bufio.NewReader(connection).ReadString('\n')
		connection.Close()
		if !strings.Contains(status, " "+tt.want+" ") {
			t.Errorf("%.60q: %q, %v; want %s", tt.request, status, err, tt.want)
		}
	}
}
