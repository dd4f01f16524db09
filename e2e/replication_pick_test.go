package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// picker asks a replica for picks as an Envoy would, without one.
type picker struct {
	client extprocv3.ExternalProcessorClient
}

// picked is the answer to one request.
type picked struct {
	address, reason string
	replica, lease  string
}

func newPicker(t *testing.T, target string) *picker {
	t.Helper()
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: 20 * time.Second, Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond},
		}),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &picker{extprocv3.NewExternalProcessorClient(conn)}
}

// pick asks for one request of a session, and ends the stream after the answer.
func (p *picker) pick(ctx context.Context, session string) (picked, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	stream, err := p.client.Process(ctx)
	if err != nil {
		return picked{}, err
	}
	headers := []*corev3.HeaderValue{{Key: ":method", RawValue: []byte("POST")}, {Key: ":path", RawValue: []byte("/v1/completions")}}
	if session != "" {
		headers = append(headers, &corev3.HeaderValue{Key: "x-session-id", RawValue: []byte(session)})
	}
	// A failed Send tells nothing; the error is what Recv returns.
	stream.Send(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
			Headers: &corev3.HeaderMap{Headers: headers}, EndOfStream: true,
		}},
		ProtocolConfig: &extprocv3.ProtocolConfiguration{},
	})
	answer, err := stream.Recv()
	if err != nil {
		return picked{}, err
	}
	if refusal := answer.GetImmediateResponse(); refusal != nil {
		return picked{}, fmt.Errorf("refused: %v %s", refusal.GetStatus().GetCode(), refusal.GetBody())
	}
	stream.CloseSend()
	stream.Recv()
	lb := answer.GetDynamicMetadata().GetFields()["envoy.lb"].GetStructValue().GetFields()
	own := answer.GetDynamicMetadata().GetFields()["mooring"].GetStructValue().GetFields()
	return picked{
		address: lb["x-gateway-destination-endpoint"].GetStringValue(),
		reason:  own["reason"].GetStringValue(), replica: own["replica"].GetStringValue(), lease: own["lease"].GetStringValue(),
	}, nil
}
