package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a reconciler that runs, with a directory of records.
type running struct {
	t          *testing.T
	live       *fleet.Live
	set        *index.Set
	controller *kvstate.Controller
	records    *lookedAt
	registry   *prometheus.Registry
	stepped    chan struct{}
	spans      *tracetest.SpanRecorder
	*Reconciler
}

func run(t *testing.T, workers ...fleet.Worker) *running {
	r := &running{
		t: t, live: fleet.NewLive(fleet.NewView(workers)), set: index.NewSet(index.Config{}), controller: kvstate.NewController(),
		records: newLookedAt(t), registry: prometheus.NewRegistry(), stepped: make(chan struct{}, 1),
		spans: tracetest.NewSpanRecorder(),
	}
	r.records.mkdir(kvstate.SourceTopic, kvstate.AttachmentTopic)
	var err error
	r.Reconciler, err = New(Config{
		Live: r.live, Index: r.set, Controller: r.controller, RecordsDir: r.records.root, Registerer: r.registry,
		StatusPeriod: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Tracing: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.testingOnlyStepped = func() {
		select {
		case r.stepped <- struct{}{}:
		default:
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// until waits for a condition that some step of the reconciler makes true.
func (r *running) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-r.stepped:
		case <-deadline:
			for _, o := range r.Owners()[:min(10, len(r.Owners()))] {
				r.t.Logf("%+v", o)
			}
			r.t.Fatalf("never: %s", what)
		}
	}
}

// soon waits for a condition that becomes true without a step of the reconciler.
func (r *running) soon(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("never: %s", what)
		}
	}
}

// known is how many owners there are, at less cost than by Owners.
func (r *running) known() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.core.owners)
}

func (r *running) projectedTo(id kvstate.CacheOwnerID) (w kvstate.Worker, ok bool) {
	w, _, ok = r.controller.Projection().Worker(id.Key())
	return w, ok
}

func (r *running) ready(id kvstate.CacheOwnerID, want kvstate.Worker) {
	r.t.Helper()
	r.until(fmt.Sprintf("owner ready on %s", want), func() bool {
		w, ok := r.projectedTo(id)
		return ok && w == want
	})
}

func (r *running) holds(o index.Owner, want int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d blocks", want), func() bool {
		ix, ok := r.set.Partition(testPartition)
		return ok && ix.Blocks(o) == want || !ok && want == 0
	})
}

func (r *running) advertise(topic string, id uint64, record any) {
	r.records.write(topic, fmt.Sprintf("%d.json", id), encoded(r.t, record))
}

func (r *running) attach(a kvstate.AttachmentAdvertisement) {
	r.advertise(kvstate.AttachmentTopic, kvstate.AttachmentRecordID(a.PublisherID, a.AttachmentGeneration), a)
}

func (r *running) detach(a kvstate.AttachmentAdvertisement) {
	r.records.remove(kvstate.AttachmentTopic, fmt.Sprintf("%d.json", kvstate.AttachmentRecordID(a.PublisherID, a.AttachmentGeneration)))
}

var testPartition = fleet.Partition{Model: "m", Group: "g"}

func testWorker(id fleet.WorkerID) fleet.Worker {
	return fleet.Worker{ID: id, Name: fmt.Sprintf("w%d", id), Models: []string{"m"}, Group: "g", Ranks: 1, State: fleet.Active}
}

func ownBlocks(id kvstate.CacheOwnerID) index.Owner {
	return index.Owner{Key: id.Key(), Domain: kvstate.CacheOwnerDomain}
}

func engineBlocks(w kvstate.Worker) index.Owner { return index.Owner{Key: kvstate.WorkerKey(w)} }
