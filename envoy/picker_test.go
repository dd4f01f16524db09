package envoy_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// picker is the smallest server that Envoy can be attached to: it does what the
// client's x-test header says and picks what its x-test-pick header says.
type picker struct {
	extprocv3.UnimplementedExternalProcessorServer
	logv3.UnimplementedAccessLogServiceServer

	entries chan *logdatav3.HTTPAccessLogEntry
	starts  chan start    // of every stream, as far as there is room
	ends    chan struct{} // one for every ext_proc stream that has ended
	release chan struct{} // closed: streams that hang go on

	keepOpen atomic.Bool // Envoy is to send the response too
	script   atomic.Pointer[func(*session) error]
	freed    sync.Once
}

// play makes every stream from now on go as the script says.
func (p *picker) play(script func(*session) error) { p.script.Store(&script) }

// start is what a stream began with.
type start struct {
	headers    map[string]string
	attributes map[string]*structpb.Value
	protocol   *extprocv3.ProtocolConfiguration
}

func newPicker() *picker {
	return &picker{
		entries: make(chan *logdatav3.HTTPAccessLogEntry, 1000),
		starts:  make(chan start, 1000),
		ends:    make(chan struct{}, 1000),
		release: make(chan struct{}),
	}
}

func (p *picker) letGo() { p.freed.Do(func() { close(p.release) }) }

func (p *picker) serve(listener net.Listener, options ...grpc.ServerOption) *grpc.Server {
	options = append(options, grpc.MaxRecvMsgSize(64<<20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{PermitWithoutStream: true}))
	server := grpc.NewServer(options...)
	extprocv3.RegisterExternalProcessorServer(server, p)
	logv3.RegisterAccessLogServiceServer(server, p)
	go server.Serve(listener)
	return server
}

func (p *picker) StreamAccessLogs(stream logv3.AccessLogService_StreamAccessLogsServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, entry := range m.GetHttpLogs().GetLogEntry() {
			p.entries <- entry
		}
	}
}

// session is one ext_proc stream.
type session struct {
	*picker
	stream  extprocv3.ExternalProcessor_ProcessServer
	headers map[string]string
	mode    filterv3.ProcessingMode_BodySendMode
	held    []*extprocv3.HttpBody
}

func (p *picker) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	defer func() { p.ends <- struct{}{} }()
	s := &session{picker: p, stream: stream}
	if script := p.script.Load(); script != nil {
		return (*script)(s)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil // Envoy is done with the stream
		}
		if done, err := s.answer(m); done || err != nil {
			return err
		}
	}
}

func (s *session) answer(m *extprocv3.ProcessingRequest) (done bool, err error) {
	switch r := m.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		return s.onHeaders(m, r.RequestHeaders)
	case *extprocv3.ProcessingRequest_RequestBody:
		// Envoy ends a stream itself once it needs no more of it, but in
		// buffered mode: there the server must.
		done := s.mode == filterv3.ProcessingMode_BUFFERED && !s.keepOpen.Load()
		return done, s.onBody(r.RequestBody)
	case *extprocv3.ProcessingRequest_RequestTrailers:
		return false, s.stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestTrailers{
			RequestTrailers: &extprocv3.TrailersResponse{},
		}})
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		return false, s.stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
			ResponseHeaders: &extprocv3.HeadersResponse{},
		}})
	case *extprocv3.ProcessingRequest_ResponseBody:
		return false, s.stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{
			ResponseBody: &extprocv3.BodyResponse{},
		}})
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		return false, s.stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{
			ResponseTrailers: &extprocv3.TrailersResponse{},
		}})
	default:
		return true, status.Errorf(codes.InvalidArgument, "unexpected %T", r)
	}
}

func (s *session) onHeaders(m *extprocv3.ProcessingRequest, h *extprocv3.HttpHeaders) (done bool, err error) {
	s.headers = make(map[string]string)
	for _, kv := range h.GetHeaders().GetHeaders() {
		s.headers[kv.GetKey()] = string(kv.GetRawValue())
	}
	s.mode = m.GetProtocolConfig().GetRequestBodyMode()
	s.starts <- start{s.headers, m.GetAttributes()[FilterAttributes].GetFields(), m.GetProtocolConfig()}
	switch s.headers["x-test"] {
	case "return-ok":
		return true, nil
	case "return-error":
		return true, status.Error(codes.Internal, "asked for")
	case "hang":
		select {
		case <-s.release:
			return true, status.Error(codes.Unavailable, "let go")
		case <-s.stream.Context().Done():
			return true, nil
		}
	case "refuse":
		return true, s.stream.Send(refusal(s.headers))
	case "pull":
		return false, s.stream.Send(&extprocv3.ProcessingResponse{ModeOverride: &filterv3.ProcessingMode{
			// What is left at DEFAULT stays as configured.
			RequestBodyMode:    filterv3.ProcessingMode_FULL_DUPLEX_STREAMED,
			RequestTrailerMode: filterv3.ProcessingMode_SEND,
			ResponseHeaderMode: filterv3.ProcessingMode_HeaderSendMode(filterv3.ProcessingMode_HeaderSendMode_value[s.headers["x-test-response"]]),
		}})
	}
	return false, s.stream.Send(s.pick())
}

// FilterAttributes is the key under which Envoy sends request attributes.
const FilterAttributes = "envoy.filters.http.ext_proc"

func (s *session) onBody(b *extprocv3.HttpBody) error {
	switch {
	case s.headers["x-test"] == "pull":
		return s.onPulled(b)
	case s.mode == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED:
		return s.stream.Send(piece(b))
	default:
		return s.stream.Send(bodyAnswer(&extprocv3.CommonResponse{}))
	}
}

// onPulled holds the body until its end, then picks, then lets all of it go.
func (s *session) onPulled(b *extprocv3.HttpBody) error {
	s.held = append(s.held, b)
	if !b.GetEndOfStream() {
		return nil
	}
	if err := s.stream.Send(s.pick()); err != nil {
		return err
	}
	for _, held := range s.held {
		if err := s.stream.Send(piece(held)); err != nil {
			return err
		}
	}
	return nil
}

func piece(b *extprocv3.HttpBody) *extprocv3.ProcessingResponse {
	return bodyAnswer(&extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{
		Mutation: &extprocv3.BodyMutation_StreamedResponse{
			StreamedResponse: &extprocv3.StreamedBodyResponse{Body: b.GetBody(), EndOfStream: b.GetEndOfStream()},
		},
	}})
}

func bodyAnswer(common *extprocv3.CommonResponse) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
		RequestBody: &extprocv3.BodyResponse{Response: common},
	}}
}

// pick is the answer to the request headers.
func (s *session) pick() *extprocv3.ProcessingResponse {
	mutation := &extprocv3.HeaderMutation{}
	if s.headers["x-test"] == "headers" {
		mutation.SetHeaders = []*corev3.HeaderValueOption{
			rawHeader("x-dynamo-worker-instance-id", "7"), rawHeader("x-data-parallel-rank", "3"), rawHeader("x-not-ours", "set"),
		}
		mutation.RemoveHeaders = []string{"x-mooring-worker", "x-prefill-dp-rank", "x-other", "x-gateway-destination-endpoint-served"}
	}
	r := &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{HeaderMutation: mutation}},
	}}
	switch s.headers["x-test"] {
	case "no-metadata":
	case "bare":
		r.DynamicMetadata = pickMetadata(s.headers["x-test-pick"])
		delete(r.DynamicMetadata.Fields, "mooring")
	default:
		r.DynamicMetadata = pickMetadata(s.headers["x-test-pick"])
	}
	return r
}

func pickMetadata(address string) *structpb.Struct {
	return mustStruct(map[string]any{
		"envoy.lb": map[string]any{"x-gateway-destination-endpoint": address},
		"mooring":  map[string]any{"replica": "18446744073709551615", "lease": "42", "worker": "7", "reason": "bound"},
	})
}

func refusal(headers map[string]string) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extprocv3.ImmediateResponse{
			Status: &typev3.HttpStatus{Code: typev3.StatusCode_TooManyRequests},
			Headers: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{
				rawHeader("content-type", "application/json"), rawHeader("retry-after", "1"), rawHeader("x-not-ours", "set"),
			}},
			Body:    []byte(`{"error":{}}`),
			Details: "mooring_overloaded",
		}},
		DynamicMetadata: mustStruct(map[string]any{"mooring": map[string]any{"worker": "", "reason": "overloaded", "id": headers["x-request-id"]}}),
	}
}

func rawHeader(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, RawValue: []byte(value)}}
}

func mustStruct(m map[string]any) *structpb.Struct {
	s, err := structpb.NewStruct(m)
	if err != nil {
		panic(err)
	}
	return s
}

// childPicker is the environment variable that makes the test binary a picker on
// the Unix socket that it names: a process of its own can be killed.
const childPicker = "MOORING_TEST_PICKER"

func TestMain(m *testing.M) {
	if address := os.Getenv(childPicker); address != "" {
		listener, err := net.Listen("unix", strings.TrimPrefix(address, "unix://"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		newPicker().serve(listener)
		<-context.Background().Done()
	}
	os.Exit(m.Run())
}
