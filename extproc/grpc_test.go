package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"
)

// served is a rig behind a real gRPC connection in memory.
type served struct {
	*rig
	grpc *grpc.Server
	conn *grpc.ClientConn
}

func serve(t testing.TB, change func(*Config)) *served {
	t.Helper()
	r := newRig(t, change)
	listener := bufconn.Listen(1 << 20)
	g := grpc.NewServer(ServerOptions(r.server.cfg)...)
	r.server.Register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(r.server.Listener(listener)) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return &served{rig: r, grpc: g, conn: conn}
}

func (s *served) process(ctx context.Context) extprocv3.ExternalProcessor_ProcessClient {
	s.t.Helper()
	stream, err := extprocv3.NewExternalProcessorClient(s.conn).Process(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return stream
}

// firstMessage is the beginning of a stream in the given mode.
func firstMessage(mode filterv3.ProcessingMode_BodySendMode, end bool, headers ...string) *extprocv3.ProcessingRequest {
	m := requestHeadersMessage(end, headers...)
	m.ProtocolConfig = &extprocv3.ProtocolConfiguration{RequestBodyMode: mode}
	return m
}

// identified adds what names the HTTP request in the access log.
func identified(m *extprocv3.ProcessingRequest, id string, start time.Time) *extprocv3.ProcessingRequest {
	m.Attributes = map[string]*structpb.Struct{attributesKey: {Fields: map[string]*structpb.Value{
		"request.id": structpb.NewStringValue(id), "request.time": structpb.NewStringValue(startOf(start)),
	}}}
	return m
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func sendAll(t testing.TB, stream extprocv3.ExternalProcessor_ProcessClient, messages ...*extprocv3.ProcessingRequest) {
	t.Helper()
	for _, m := range messages {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
}

// pickOf routes one bodyless request and returns what the answer says.
func (s *served) pickOf(first *extprocv3.ProcessingRequest) (replica, lease, address string) {
	s.t.Helper()
	stream := s.process(s.t.Context())
	sendAll(s.t, stream, first)
	answer := must[*extprocv3.ProcessingResponse](s.t)(stream.Recv())
	fields := answer.GetDynamicMetadata().GetFields()
	mooring := fields[namespaceMooring].GetStructValue().GetFields()
	if err := stream.CloseSend(); err != nil {
		s.t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		s.t.Fatalf("after the pick: %v, want the end with OK", err)
	}
	return mooring[keyReplica].GetStringValue(), mooring[keyLease].GetStringValue(), fields[namespaceLB].GetStructValue().GetFields()[headerDestination].GetStringValue()
}

// entry is an access log entry of a request that ended well at address.
func entry(replica, lease, address string) *logdatav3.HTTPAccessLogEntry {
	host, port, _ := strings.Cut(address, ":")
	var number uint32
	fmt.Sscan(port, &number)
	c := &logdatav3.AccessLogCommon{
		Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}},
		UpstreamRemoteAddress: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: number},
		}}},
	}
	if lease != "" {
		c.Metadata.FilterMetadata[namespaceMooring] = &structpb.Struct{Fields: map[string]*structpb.Value{
			keyReplica: structpb.NewStringValue(replica), keyLease: structpb.NewStringValue(lease),
		}}
	}
	return &logdatav3.HTTPAccessLogEntry{CommonProperties: c}
}

// reporter is Envoy's end of an access log stream.
type reporter struct {
	t      testing.TB
	stream logv3.AccessLogService_StreamAccessLogsClient
	server *Server
}

func (s *served) report() *reporter {
	s.t.Helper()
	stream := must[logv3.AccessLogService_StreamAccessLogsClient](s.t)(logv3.NewAccessLogServiceClient(s.conn).StreamAccessLogs(s.t.Context()))
	return &reporter{t: s.t, stream: stream, server: s.server}
}

// send reports entries and waits until they have been taken.
func (r *reporter) send(entries ...*logdatav3.HTTPAccessLogEntry) {
	r.t.Helper()
	err := r.stream.Send(&logv3.StreamAccessLogsMessage{LogEntries: &logv3.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &logv3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: entries},
	}})
	if err != nil {
		r.t.Fatal(err)
	}
}

// close ends the stream. All entries have been taken when it returns.
func (r *reporter) close() {
	r.t.Helper()
	if err := r.stream.CloseSend(); err != nil {
		r.t.Fatal(err)
	}
	for {
		if err := r.stream.RecvMsg(&logv3.StreamAccessLogsResponse{}); err != nil {
			return
		}
	}
}

// eventually waits for what other goroutines are about to do.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

func (s *served) idle() {
	eventually(s.t, "streams end", func() bool { return s.server.live.Load() == 0 })
}

func TestHeadersSuffice(t *testing.T) {
	s := serve(t, nil)
	stream := s.process(t.Context())
	sendAll(t, stream, firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false, "x-session-id=s"))
	answer := must[*extprocv3.ProcessingResponse](t)(stream.Recv())
	common := answer.GetRequestHeaders().GetResponse()
	if common.GetClearRouteCache() || common.GetStatus() != extprocv3.CommonResponse_CONTINUE {
		t.Errorf("answer %v", common)
	}
	sendAll(t, stream, requestBodyMessage([]byte(strings.Repeat("b", 130_000)), true))
	var back []byte
	for end := false; !end; {
		piece := must[*extprocv3.ProcessingResponse](t)(stream.Recv()).GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if n := len(piece.GetBody()); n > maxPiece {
			t.Errorf("a piece of %d bytes", n)
		}
		back, end = append(back, piece.GetBody()...), piece.GetEndOfStream()
	}
	if string(back) != strings.Repeat("b", 130_000) {
		t.Errorf("%d bytes came back, or others", len(back))
	}
}

// Two streams of one session go to one worker, and nobody else's does by chance.
func TestSessionKeepsItsWorker(t *testing.T) {
	s := serve(t, nil)
	_, _, first := s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s"))
	for range 20 {
		s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true))
		if _, _, again := s.pickOf(firstMessage(filterv3.ProcessingMode_NONE, true, "x-session-id=s")); again != first {
			t.Fatalf("moved from %s to %s", first, again)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client that leaves at any point leaves nothing behind.
func TestAbortAtEveryPoint(t *testing.T) {
	body := `{"model":"a","messages":[]}`
	const points = 6 // after each of three messages and, then, two answers
	modes := []filterv3.ProcessingMode_BodySendMode{filterv3.ProcessingMode_NONE, filterv3.ProcessingMode_BUFFERED, filterv3.ProcessingMode_FULL_DUPLEX_STREAMED}
	s := serve(t, nil)
	reporter := s.report()
	var wg sync.WaitGroup
	for _, mode := range modes {
		for _, group := range []string{"default", "two"} {
			for point := range points {
				for try := range 8 {
					wg.Go(func() {
						start := time.Unix(int64(point), int64(try))
						id := fmt.Sprint(mode, group, point, try)
						ctx, leave := context.WithCancel(t.Context())
						defer leave()
						stream, err := extprocv3.NewExternalProcessorClient(s.conn).Process(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						messages := []*extprocv3.ProcessingRequest{
							identified(firstMessage(mode, false, "x-session-id=s", "x-routing-group="+group), id, start),
							requestBodyMessage([]byte(body[:5]), false), requestBodyMessage([]byte(body[5:]), true),
						}
						for i := range point {
							switch {
							case i >= len(messages):
								stream.Recv()
							case stream.Send(messages[i]) != nil:
								return
							}
						}
					})
				}
			}
		}
	}
	wg.Wait()
	s.idle()
	// Envoy reports each request, but knows of the pick only if it arrived.
	for _, mode := range modes {
		for _, group := range []string{"default", "two"} {
			for point := range points {
				for try := range 8 {
					e := entry("", "", "")
					e.CommonProperties.UpstreamRemoteAddress = nil
					e.CommonProperties.StartTime = timestamp(time.Unix(int64(point), int64(try)))
					e.Request = &logdatav3.HTTPRequestProperties{RequestId: fmt.Sprint(mode, group, point, try)}
					e.CommonProperties.ResponseFlags = &logdatav3.ResponseFlags{DownstreamConnectionTermination: true}
					reporter.send(e)
				}
			}
		}
	}
	reporter.close()
	s.clean()
}

func TestManyAbortsAtRandomPoints(t *testing.T) {
	s := serve(t, func(c *Config) { c.End = Stream })
	const streams = 10_000
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for n := range streams {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			stream, err := extprocv3.NewExternalProcessorClient(s.conn).Process(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			group := []string{"default", "two"}[n%2]
			first := firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, false, fmt.Sprintf("x-session-id=%d", n%100), "x-routing-group="+group)
			first.ProtocolConfig.ResponseBodyMode = filterv3.ProcessingMode_STREAMED
			steps := []func() error{
				func() error { return stream.Send(first) },
				func() error { return stream.Send(requestBodyMessage([]byte(`{"model":"b"}`), true)) },
				func() error { _, err := stream.Recv(); return err },
				func() error { _, err := stream.Recv(); return err },
				func() error { return stream.Send(responseHeadersMessage(false, ":status=200")) },
				func() error { return stream.Send(responseBodyMessage([]byte("data"), false)) },
				func() error { _, err := stream.Recv(); return err },
				func() error { return stream.Send(responseBodyMessage([]byte("data"), true)) },
			}
			for _, step := range steps[:(n*7)%(len(steps)+1)] {
				if err := step(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	s.idle()
	s.clean()
	if got := value(t, s.server.metrics.streams); got != 0 {
		t.Errorf("mooring_streams is %v", got)
	}
}
