package extproc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"mooring/internal/fleet"
	"mooring/routing"
)

// idleServer is what there is to be compared with: it decides nothing and answers
// every message at once. headers is its answer to headers, made beforehand.
type idleServer struct {
	extprocv3.UnimplementedExternalProcessorServer
	headers *extprocv3.ProcessingResponse
}

// plainIdle answers as briefly as the protocol allows.
func plainIdle() idleServer {
	return idleServer{headers: headersResponse(&extprocv3.CommonResponse{})}
}

// alikeIdle answers with what a pick answers: that Envoy is told more costs both
// sides the same to encode and to decode, and is not what is measured.
func alikeIdle(s *Server) idleServer {
	rt := &routing.Route{Target: fleet.WorkerOnly(1), Address: "10.0.0.1:8000", Ranks: 1, Reason: routing.Bound}
	p := s.answers.pin(rt, s.cfg.FirstLease)
	answer := headersResponse(decoded(p.common))
	answer.DynamicMetadata = decoded(p.metadata)
	return idleServer{headers: answer}
}

func (i idleServer) register(g *grpc.Server) { extprocv3.RegisterExternalProcessorServer(g, i) }

func (i idleServer) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		answer := i.headers
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

// cost is what requests took of the whole process, client and server.
type cost struct {
	time   time.Duration
	allocs uint64
	bytes  uint64
}

// add runs work and counts it in.
func (c *cost) add(work func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	work()
	c.time += time.Since(began)
	runtime.ReadMemStats(&after)
	c.allocs += after.Mallocs - before.Mallocs
	c.bytes += after.TotalAlloc - before.TotalAlloc
}

// batch runs batchSize requests, inFlight at a time.
func batch(one func(n int)) {
	var wg sync.WaitGroup
	for w := range inFlight {
		wg.Go(func() {
			for n := w; n < batchSize; n += inFlight {
				one(n)
			}
		})
	}
	wg.Wait()
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
// against two servers that do nothing. ratio is this package's time over that of
// the one that answers alike, plain-ratio over that of the one that says nothing;
// own-allocs and own-B are what it allocates beyond the one that answers alike.
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
			idle := listenAndServe(b, alikeIdle(s.server).register)
			plain := listenAndServe(b, plainIdle().register)
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
			var ours, theirs, least cost
			requests := 0
			end := func() {
				for range batchSize {
					if tt.log {
						reporter.send(entry("77", fmt.Sprint(lease), "10.0.0.1:8000"))
					} else {
						s.server.ledger.end(lease, 0, byAccessLog)
					}
					lease++
				}
				eventually(b, "the entries are taken", func() bool { return s.server.ledger.len() == 0 })
			}
			for b.Loop() {
				theirs.add(func() { batch(run(idle)) })
				least.add(func() { batch(run(plain)) })
				ours.add(func() { batch(run(mooring)) })
				if tt.log {
					ours.add(end)
				} else {
					end()
				}
				requests += batchSize
			}
			each := float64(requests)
			b.ReportMetric(float64(ours.time)/float64(theirs.time), "ratio")
			b.ReportMetric(float64(ours.time)/float64(least.time), "plain-ratio")
			b.ReportMetric(float64(ours.time)/each, "ns/request")
			b.ReportMetric(float64(theirs.time)/each, "ns/idle-request")
			b.ReportMetric((float64(ours.allocs)-float64(theirs.allocs))/each, "own-allocs/request")
			b.ReportMetric((float64(ours.bytes)-float64(theirs.bytes))/each, "own-B/request")
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
