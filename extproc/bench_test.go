package extproc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	logv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
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

// idleLog reads access log entries and does nothing about them.
type idleLog struct {
	logv3.UnimplementedAccessLogServiceServer
}

func (idleLog) StreamAccessLogs(stream logv3.AccessLogService_StreamAccessLogsServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return nil
		}
	}
}

func (i idleServer) register(g *grpc.Server) {
	extprocv3.RegisterExternalProcessorServer(g, i)
	logv3.RegisterAccessLogServiceServer(g, idleLog{})
}

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
	cpu    time.Duration // user and system, of all processors
	allocs uint64
	bytes  uint64
}

// add runs work and counts it in.
func (c *cost) add(work func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, used := time.Now(), cpuTime()
	work()
	c.time += time.Since(began)
	c.cpu += cpuTime() - used
	runtime.ReadMemStats(&after)
	c.allocs += after.Mallocs - before.Mallocs
	c.bytes += after.TotalAlloc - before.TotalAlloc
}

// cpuTime returns what this process has used. On a busy machine it says more than
// the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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

// report sends entries, each in a message of its own as Envoy does, and returns
// when all were taken.
func report(b *testing.B, conn *grpc.ClientConn, entries []*logdatav3.HTTPAccessLogEntry) {
	stream, err := logv3.NewAccessLogServiceClient(conn).StreamAccessLogs(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	r := &reporter{t: b, stream: stream}
	for _, e := range entries {
		r.send(e)
	}
	r.close()
}

// BenchmarkBesideIdle runs the same requests against this package and, in turns,
// against two servers that do nothing. ratio is this package's time over that of
// the one that answers alike, plain-ratio over that of the one that says nothing;
// cpu-ratio is as ratio, of processor time;
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
		log     bool // one access log entry for each request, counted in on both sides
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
			for b.Loop() {
				entries := make([]*logdatav3.HTTPAccessLogEntry, batchSize)
				for n := range entries {
					entries[n] = entry("77", fmt.Sprint(lease+uint64(n)), "10.0.0.1:8000")
				}
				for conn, c := range map[*grpc.ClientConn]*cost{idle: &theirs, plain: &least, mooring: &ours} {
					c.add(func() { batch(run(conn)) })
					if tt.log {
						c.add(func() { report(b, conn, entries) })
					}
				}
				for range batchSize {
					if _, left := s.server.ledger.end(lease, 0, byAccessLog); left == tt.log {
						b.Fatalf("the end of lease %d is not as it should be", lease)
					}
					lease++
				}
				requests += batchSize
			}
			each := float64(requests)
			b.ReportMetric(float64(ours.time)/float64(theirs.time), "ratio")
			b.ReportMetric(float64(ours.cpu)/float64(theirs.cpu), "cpu-ratio")
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
