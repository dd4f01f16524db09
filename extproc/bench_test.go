package extproc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// idleServer is what there is to be compared with: it answers every message as
// briefly as the protocol allows and decides nothing.
type idleServer struct {
	extprocv3.UnimplementedExternalProcessorServer
}

func (idleServer) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		answer := headersResponse(&extprocv3.CommonResponse{})
		if b := m.GetRequestBody(); b != nil {
			answer = requestPiece(b.GetBody(), b.GetEndOfStream())
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func listenAndServe(b *testing.B, register func(*grpc.Server)) *grpc.ClientConn {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	g := grpc.NewServer(ServerOptions(Config{})...)
	register(g)
	go g.Serve(listener)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(); g.Stop() })
	return conn
}

const (
	inFlight  = 16
	batchSize = 512
)

// batch runs batchSize requests, inFlight at a time, and returns how long it took.
func batch(b *testing.B, one func(n int)) time.Duration {
	began := time.Now()
	var wg sync.WaitGroup
	for w := range inFlight {
		wg.Go(func() {
			for n := w; n < batchSize; n += inFlight {
				one(n)
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}

// exchangeOnce runs one stream: headers, the pieces of a body, as many answers.
func exchangeOnce(b *testing.B, conn *grpc.ClientConn, answers int, messages ...*extprocv3.ProcessingRequest) {
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(b.Context())
	if err != nil {
		b.Error(err)
		return
	}
	for _, m := range messages {
		if err := stream.Send(m); err != nil {
			b.Error(err)
			return
		}
	}
	for range answers {
		if _, err := stream.Recv(); err != nil {
			b.Error(err)
			return
		}
	}
	stream.CloseSend()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		b.Errorf("the stream ended with %v", err)
	}
}

// BenchmarkBesideIdle runs the same requests against this package and, in turns,
// against a server that does nothing. ratio is the one's time over the other's.
func BenchmarkBesideIdle(b *testing.B) {
	body := func(n int) []byte {
		return []byte(fmt.Sprintf(`{"model":"a","prompt":%q}`, strings.Repeat("p", n-26)))
	}
	tests := []struct {
		name    string
		group   string
		session func(n int) string
		body    []byte
		log     bool // one access log entry for each request, counted in
	}{
		{"bound/headers", "default", fixed, nil, false},
		{"bound/headers+log", "default", fixed, nil, true},
		{"bound/2KiB", "default", fixed, body(2 << 10), false},
		{"bound/64KiB", "default", fixed, body(60_000), false},
		{"bound/2KiB-needed", "two", fixed, body(2 << 10), false},
		{"new/2KiB-needed", "two", fresh(), body(2 << 10), false},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			s := serve(b, nil)
			mooring := listenAndServe(b, s.server.Register)
			idle := listenAndServe(b, func(g *grpc.Server) { extprocv3.RegisterExternalProcessorServer(g, idleServer{}) })
			reporter := s.report()
			answers := 1
			if tt.body != nil {
				answers = 2
			}
			run := func(conn *grpc.ClientConn) func(n int) {
				return func(n int) {
					messages := []*extprocv3.ProcessingRequest{benchHeaders(tt.body == nil, tt.session(n), tt.group)}
					if tt.body != nil {
						messages = append(messages, requestBodyMessage(tt.body, true))
					}
					exchangeOnce(b, conn, answers, messages...)
				}
			}
			lease := s.server.cfg.FirstLease
			var ours, theirs time.Duration
			requests := 0
			for b.Loop() {
				theirs += batch(b, run(idle))
				ours += batch(b, run(mooring))
				began := time.Now()
				for range batchSize {
					if tt.log {
						reporter.send(entry("77", fmt.Sprint(lease), "10.0.0.1:8000"))
					} else {
						s.server.ledger.end(lease, 0, byAccessLog)
					}
					lease++
				}
				if tt.log {
					eventually(b, "the entries are taken", func() bool { return s.server.ledger.len() == 0 })
					ours += time.Since(began)
				}
				requests += batchSize
			}
			b.ReportMetric(float64(ours)/float64(theirs), "ratio")
			b.ReportMetric(float64(ours.Nanoseconds())/float64(requests), "ns/request")
			b.ReportMetric(float64(theirs.Nanoseconds())/float64(requests), "ns/idle-request")
		})
	}
}

func fixed(n int) string { return fmt.Sprint(n % 100) }

func fresh() func(int) string {
	var mu sync.Mutex
	count := 0
	return func(int) string {
		mu.Lock()
		defer mu.Unlock()
		count++
		return fmt.Sprint(count % 50_000)
	}
}

// benchHeaders has the twenty headers that a request through Envoy has.
func benchHeaders(end bool, session, group string) *extprocv3.ProcessingRequest {
	headers := []string{":method=POST", ":path=/v1/chat/completions", ":authority=example.com", ":scheme=https", "x-request-id=6f1ed002-ab5f-4b1f-9f5e-ab5f4b1f9f5e",
		"content-type=application/json", "x-session-id=" + session, "x-routing-group=" + group}
	for n := range 12 {
		headers = append(headers, fmt.Sprintf("x-filler-%d=%s", n, strings.Repeat("f", 40)))
	}
	return identified(firstMessage(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, end, headers...), "id", time.Unix(1, 1))
}
