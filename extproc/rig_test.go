package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"mooring/affinity"
	"mooring/internal/fleet"
	"mooring/routing"
)

// rig is a server over a small fleet: in the default group everybody serves one
// model, so that the headers suffice; in the group "two" there are the models a
// and b, so that the body is needed.
type rig struct {
	t        testing.TB
	live     *fleet.Live
	sessions *affinity.Resolver
	server   *Server
	registry *prometheus.Registry
}

func newRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	live := fleet.NewLive(fleet.NewView([]fleet.Worker{
		testWorker(1, fleet.DefaultName, 1, "m"), testWorker(2, fleet.DefaultName, 1, "m"),
		testWorker(3, "two", 1, "a"), testWorker(4, "two", 2, "b"),
	}))
	sessions, err := affinity.NewResolver(live, affinity.Config{WriterID: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, live: live, sessions: sessions, registry: prometheus.NewRegistry()}
	cfg := Config{ReplicaID: 77, FirstLease: 1000, MaxBodyBytes: 256 << 10, Registerer: r.registry}
	if change != nil {
		change(&cfg)
	}
	router := routing.NewRouter(live, sessions, routing.Config{SessionHeaders: []string{"x-session-id"}, GroupHeader: "x-routing-group", MaxBodyBytes: cfg.MaxBodyBytes})
	if r.server, err = New(router, cfg); err != nil {
		t.Fatal(err)
	}
	r.server.SetReady(true)
	return r
}

func testWorker(id fleet.WorkerID, group string, ranks uint32, models ...string) fleet.Worker {
	return fleet.Worker{ID: id, Address: fmt.Sprintf("10.0.0.%d:8000", id), Models: models, Group: group, Ranks: ranks, State: fleet.Active}
}

// load returns how many requests the router counts as live.
func (r *rig) load() int {
	n := 0
	for _, w := range r.live.View().Workers() {
		n += r.server.router.Live(fleet.WorkerOnly(w.ID))
		for rank := range w.Ranks {
			n += r.server.router.Live(fleet.OnRank(w.ID, rank))
		}
	}
	return n
}

// leases returns how many leases the sessions have.
func (r *rig) leases() int {
	n := 0
	entries, _ := r.sessions.List(affinity.Filter{}, "", 10000)
	for _, e := range entries {
		n += e.Leases
	}
	return n
}

// clean fails if anything is left of the requests that were made.
func (r *rig) clean() {
	r.t.Helper()
	if n := r.server.ledger.len(); n != 0 {
		r.t.Errorf("%d ends are still awaited", n)
	}
	if n := r.load(); n != 0 {
		r.t.Errorf("load is %d, want 0", n)
	}
	if n := r.leases(); n != 0 {
		r.t.Errorf("%d leases are left", n)
	}
	if n := r.server.held.used.Load(); n != 0 {
		r.t.Errorf("%d bytes are still reserved", n)
	}
	if n := r.server.live.Load(); n != 0 {
		r.t.Errorf("%d streams are open", n)
	}
}

func (r *rig) oddities(kind string) float64 {
	return value(r.t, r.server.metrics.oddities.WithLabelValues(kind))
}

// value reads a counter or gauge.
func value(t testing.TB, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

// pipe is a stream in memory, as gRPC makes one: its context ends with the
// handler, and with a reset.
type pipe struct {
	grpc.ServerStream
	ctx    context.Context
	reset  context.CancelFunc
	in     chan *extprocv3.ProcessingRequest // closed: half-closed
	halt   chan struct{}                     // if not nil, Send blocks until it is closed
	result chan error                        // what the handler returned

	breakAfter int // if not 0, Send fails once it has sent that many

	mu  sync.Mutex
	out []*extprocv3.ProcessingResponse
}

var errBroken = errors.New("the connection broke")

func (p *pipe) Context() context.Context { return p.ctx }

func (p *pipe) Recv() (*extprocv3.ProcessingRequest, error) {
	select {
	case m, ok := <-p.in:
		if !ok {
			return nil, io.EOF
		}
		return m, nil
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
}

func (p *pipe) Send(r *extprocv3.ProcessingResponse) error {
	if p.halt != nil {
		select {
		case <-p.halt:
		case <-p.ctx.Done():
		}
	}
	if p.ctx.Err() != nil {
		return p.ctx.Err()
	}
	sent := decoded(r)
	p.mu.Lock()
	if p.breakAfter > 0 && len(p.out) >= p.breakAfter {
		p.mu.Unlock()
		return errBroken
	}
	p.out = append(p.out, sent)
	p.mu.Unlock()
	return nil
}

// decoded returns what the other side makes of m, once it went over the wire.
func decoded[M proto.Message](m M) M {
	raw, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	out := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(raw, out); err != nil {
		panic(err)
	}
	return out
}

// take returns the answers that have come since it was last called.
func (p *pipe) take() []*extprocv3.ProcessingResponse {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.out
	p.out = nil
	return out
}

// open starts a stream whose handler runs until it is done with it.
func (r *rig) open() *pipe {
	p := &pipe{in: make(chan *extprocv3.ProcessingRequest), result: make(chan error, 1)}
	p.ctx, p.reset = context.WithCancel(context.Background())
	go func() {
		err := r.server.Process(p)
		p.reset()
		p.result <- err
	}()
	return p
}

// startOf is the attribute by which a request's start is known.
func startOf(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
