package extproc

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// gatewayTo connects another Envoy.
func gatewayTo(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestRequestsOfALostGatewayAreGivenUp(t *testing.T) {
	s := serve(t, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.grpc.Serve(s.server.Listener(listener))
	dying, living := gatewayTo(t, listener.Addr().String()), gatewayTo(t, listener.Addr().String())
	for _, conn := range []*grpc.ClientConn{dying, living} {
		stream := must[extprocv3.ExternalProcessor_ProcessClient](t)(extprocv3.NewExternalProcessorClient(conn).Process(t.Context()))
		sendAll(t, stream, benchHeaders(true, "s", "default"))
		must[*extprocv3.ProcessingResponse](t)(stream.Recv())
		stream.CloseSend()
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if n := s.server.ledger.len(); n != 2 {
		t.Fatalf("%d ends are awaited, want 2", n)
	}
	dying.Close()
	lost := func() int {
		s.server.gateways.mu.Lock()
		defer s.server.gateways.mu.Unlock()
		return len(s.server.gateways.mu.lost)
	}
	eventually(t, "the connection is lost", func() bool { return lost() == 1 })

	s.server.tick(time.Now().Add(orphanAfter / 2))
	if n := s.server.ledger.len(); n != 2 {
		t.Errorf("%d ends are awaited soon after the loss, want 2: an entry may be on its way", n)
	}
	s.server.tick(time.Now().Add(orphanAfter + time.Second))
	if n := s.server.ledger.len(); n != 1 {
		t.Errorf("%d ends are awaited, want the living gateway's 1", n)
	}
	if n := s.load(); n != 1 {
		t.Errorf("load %d, want 1", n)
	}
	if lost() != 0 {
		t.Error("the lost connection is still remembered")
	}
}

func TestAConnectionWithoutPicksIsNotRemembered(t *testing.T) {
	g := newGateways()
	g.lose(&connection{gateways: g}, time.Now())
	if got := g.orphaned(time.Now().Add(time.Hour)); len(got) != 0 {
		t.Errorf("remembered %v", got)
	}
}
