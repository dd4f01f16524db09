package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"mooring/internal/fleet"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// An agent with an engine, over HTTP and ZeroMQ: recovered, followed, repaired,
// re-attached to another worker with what it kept, and forgotten.
func TestAgentOverTheNetwork(t *testing.T) {
	r := run(t, testWorker(1), testWorker(2))
	one, two := kvstate.Worker{WorkerID: 1}, kvstate.Worker{WorkerID: 2}
	a := newTestAgent(t, testOwner('A'), 7)
	first := a.attach(one)
	a.emit(true, stored(kvstate.WorkerDomain, kvstate.Device, 1, 2, 3))
	a.emit(true, stored(kvstate.CacheOwnerDomain, kvstate.HostPinned, 1, 2))
	r.advertise(kvstate.SourceTopic, 7, a.source())
	r.attach(first)
	r.ready(a.owner, one)
	r.holds(engineBlocks(one), 3)
	r.holds(ownBlocks(a.owner), 2)

	r.until("the stream is there", func() bool { return a.stream.Stats().Peers == 1 })
	a.emit(true, stored(kvstate.WorkerDomain, kvstate.Device, 4))
	r.holds(engineBlocks(one), 4)
	a.emit(false, stored(kvstate.WorkerDomain, kvstate.Device, 5)) // lost
	a.emit(true, stored(kvstate.WorkerDomain, kvstate.Device, 6))
	r.holds(engineBlocks(one), 6)
	a.emit(false, stored(kvstate.WorkerDomain, kvstate.Device, 8)) // lost, and nothing follows
	r.holds(engineBlocks(one), 7)
	if got := slices.Compact(a.wasAsked()); !slices.Equal(got, []string{"full", "range"}) {
		t.Errorf("asked %v: a gap is repaired by a range", got)
	}
	named := make(map[string]int)
	for _, span := range r.spans.Ended() {
		named[span.Name()]++
	}
	if named["kvstate.recover"] != len(a.wasAsked()) {
		t.Errorf("spans %v for %d recoveries", named, len(a.wasAsked()))
	}
	if named["kvstate.resolve"] == 0 {
		t.Error("no change of the resolution was traced")
	}

	r.detach(first)
	r.until("not projected", func() bool { _, ok := r.projectedTo(a.owner); return !ok })
	r.holds(engineBlocks(one), 0)
	r.holds(ownBlocks(a.owner), 2)
	r.attach(a.attach(two))
	r.ready(a.owner, two)
	r.holds(ownBlocks(a.owner), 2)

	r.live.Publish(fleet.NewView([]fleet.Worker{testWorker(1)})) // worker 2 is gone
	r.until("not projected", func() bool { _, ok := r.projectedTo(a.owner); return !ok })
	r.records.remove(kvstate.SourceTopic, "7.json")
	r.holds(ownBlocks(a.owner), 0)
}

func TestAgentThatDiesIsNotProjected(t *testing.T) {
	r := run(t, testWorker(1))
	one := kvstate.Worker{WorkerID: 1}
	a := newTestAgent(t, testOwner('A'), 7)
	r.advertise(kvstate.SourceTopic, 7, a.source())
	r.attach(a.attach(one))
	r.ready(a.owner, one)
	if state, reason := r.Worker(one); state != "ready" || reason != "" {
		t.Errorf("worker: %s %s", state, reason)
	}
	a.http.Close()
	r.until("not projected", func() bool { _, ok := r.projectedTo(a.owner); return !ok })
	if state, reason := r.Worker(one); state != "unknown" || reason != "endpoint_unreachable" {
		t.Errorf("worker: %s %s", state, reason)
	}
	if state, _ := r.Worker(kvstate.Worker{WorkerID: 9}); state != "none" {
		t.Errorf("a worker without an owner: %s", state)
	}
}

func TestOwnersAndMetricsSayWhatIsWrong(t *testing.T) {
	r := run(t, testWorker(1))
	s := sourceRecord(7)
	s.RecoveryControlTarget.Transport = kvstate.Transport{Kind: kvstate.TCP, Address: "tcp://10.0.0.1:1"}
	at := attachmentRecord(7, 1)
	at.RecoveryControlTarget = s.RecoveryControlTarget
	r.advertise(kvstate.SourceTopic, 7, s)
	r.attach(at)
	r.advertise(kvstate.SourceTopic, 9, s)
	r.until("judged", func() bool {
		owners := r.Owners()
		return len(owners) == 1 && owners[0].Reason == "endpoint_unreachable"
	})
	got := r.Owners()[0]
	want := OwnerReport{
		Owner: s.CacheOwnerID.Key().String(), Identity: s.CacheOwnerID.String(), Source: "directory", Resolution: "unknown",
		Reason: "endpoint_unreachable", Reasons: []string{"endpoint_unreachable", "recovery_behind_barrier"}, WorkerID: 1, Barrier: 1,
		Problem: "its agent is reached by tcp, and Dynamo's own request plane is not spoken here: only http is", Since: got.Since,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	<-r.Settled()
	r.advertise(kvstate.SourceTopic, 8, sourceRecord(8)) // is told after what was written before
	r.until("another owner", func() bool { return len(r.Owners()) == 2 })
	var refused dto.Metric
	if err := r.metrics.refused.WithLabelValues("wrong_id").Write(&refused); err != nil || refused.GetCounter().GetValue() != 1 {
		t.Errorf("refused: %v, %v", &refused, err)
	}
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "mooring_kvstate_owners" {
			continue
		}
		for _, m := range f.GetMetric() {
			want := 0.0
			if reason := m.GetLabel()[0].GetValue(); reason == "endpoint_unreachable" || reason == "no_attachment" {
				want = 1
			}
			if n := m.GetGauge().GetValue(); n != want {
				t.Errorf("%v: %v owners, want %v", m.GetLabel(), n, want)
			}
		}
		return
	}
	t.Error("no gauge of owners")
}

func TestDirectoryThatLeavesAndReturns(t *testing.T) {
	r := run(t, testWorker(1))
	one := kvstate.Worker{WorkerID: 1}
	a := newTestAgent(t, testOwner('A'), 7)
	r.advertise(kvstate.SourceTopic, 7, a.source())
	r.attach(a.attach(one))
	a.emit(true, stored(kvstate.WorkerDomain, kvstate.Device, 1))
	r.ready(a.owner, one)
	r.records.rename(r.records.root, r.records.root+"-away")
	r.until("uncertain", func() bool { return r.Owners()[0].Reason == "watch_uncertain" })
	if got := r.Problems(); len(got) != 1 {
		t.Errorf("problems: %q", got)
	}
	r.holds(engineBlocks(one), 1)
	r.records.rename(r.records.root+"-away", r.records.root)
	r.ready(a.owner, one)
	if got := slices.Compact(a.wasAsked()); !slices.Equal(got, []string{"full"}) {
		t.Errorf("asked %v: a watch that returns needs no recovery", got)
	}
}

// Readers never wait and never see anything but whole projections, whatever the
// reconciler does meanwhile. Run with -race.
func TestReadersBesideChanges(t *testing.T) {
	r := run(t, testWorker(1), testWorker(2))
	a := newTestAgent(t, testOwner('A'), 7)
	r.advertise(kvstate.SourceTopic, 7, a.source())
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			var m index.Matches
			for {
				select {
				case <-stop:
					return
				default:
				}
				p := r.controller.Projection()
				if w, _, ok := p.Worker(a.owner.Key()); ok && w.WorkerID != 1 && w.WorkerID != 2 {
					t.Errorf("projected to %v", w)
				}
				if ix, ok := r.set.Partition(testPartition); ok {
					ix.Match(p, []uint64{1, 2, 3}, &m)
				}
				_ = r.Owners()
			}
		})
	}
	for i := range uint64(4) {
		w := kvstate.Worker{WorkerID: 1 + i%2}
		at := a.attach(w)
		a.emit(true, stored(kvstate.WorkerDomain, kvstate.Device, 1, 2, 3))
		r.attach(at)
		r.ready(a.owner, w)
		r.detach(at)
		r.until("not projected", func() bool { _, ok := r.projectedTo(a.owner); return !ok })
	}
	close(stop)
	readers.Wait()
}

func TestTwoOwnersOfOneWorkerShow(t *testing.T) {
	r := run(t, testWorker(1))
	one := kvstate.Worker{WorkerID: 1}
	for pub := range uint64(2) {
		a := newTestAgent(t, testOwner('A'+byte(pub)), 7+pub)
		r.advertise(kvstate.SourceTopic, 7+pub, a.source())
		r.attach(a.attach(one))
		a.emit(true, stored(kvstate.WorkerDomain, kvstate.Device, 1, 2))
		r.ready(a.owner, one)
	}
	for _, o := range r.Owners() {
		if !o.Shared || o.Resolution != "ready" {
			t.Errorf("%+v", o)
		}
	}
	if got := r.Problems(); len(got) != 1 || !strings.Contains(got[0], "more than one cache owner is projected: 1") {
		t.Errorf("problems: %q", got)
	}
	r.holds(engineBlocks(one), 2)
}

// What is still on its way from a worker that is gone leaves nothing behind (B90).
func TestEventsOfAWorkerThatIsGone(t *testing.T) {
	const queued = 10_000
	r := run(t, testWorker(1))
	one := kvstate.Worker{WorkerID: 1}
	a := newTestAgent(t, testOwner('A'), 7)
	r.advertise(kvstate.SourceTopic, 7, a.source())
	r.attach(a.attach(one))
	r.ready(a.owner, one)
	r.until("the stream is there", func() bool { return a.stream.Stats().Peers == 1 })
	for i := range uint64(queued) {
		a.emit(true, stored(kvstate.WorkerDomain, kvstate.Device, i))
		if i == queued/10 {
			r.live.Publish(fleet.NewView(nil))
		}
	}
	a.emit(true, stored(kvstate.CacheOwnerDomain, kvstate.HostPinned, 1))
	r.until("not projected", func() bool { _, ok := r.projectedTo(a.owner); return !ok })
	r.holds(engineBlocks(one), 0)
	r.records.remove(kvstate.SourceTopic, "7.json")
	r.until("the index is dropped", func() bool { _, open := r.set.Partition(testPartition); return !open })
}

// A thousand workers with feeds come and go, a hundred at a time (B90); goleak sees
// what stays.
func TestManyFeedsComeAndGo(t *testing.T) {
	const waves, wave = 10, 100
	r := run(t)
	for i := range waves {
		workers := make([]fleet.Worker, wave)
		for j := range workers {
			workers[j] = testWorker(fleet.WorkerID(i*wave + j + 1))
			workers[j].KVEvents = "tcp://127.0.0.1:1" // nobody is there
		}
		r.live.Publish(fleet.NewView(slices.Clone(workers)))
		r.until("they are known, and those before forgotten", func() bool {
			_, first := r.Worker(kvstate.Worker{WorkerID: uint64(workers[0].ID)})
			return r.known() == wave && first != ""
		})
		r.live.Publish(fleet.NewView(slices.Clone(workers[:wave/2])))
		r.until("half are forgotten", func() bool { return r.known() == wave/2 })
	}
	r.live.Publish(fleet.NewView(nil))
	r.until("all are forgotten", func() bool {
		_, open := r.set.Partition(testPartition)
		return r.known() == 0 && !open
	})
}

func TestConfiguredBlockSizeComesFirst(t *testing.T) {
	r := run(t, testWorker(1))
	one := kvstate.Worker{WorkerID: 1}
	a := newTestAgent(t, testOwner('A'), 7)
	r.set.Open(testPartition).SetBlockSize(32) // as a worker's configuration does
	r.advertise(kvstate.SourceTopic, 7, a.source())
	r.attach(a.attach(one))
	r.until("an error", func() bool {
		state, reason := r.Worker(one)
		return state == "error" && reason == "block_size"
	})
	if _, ok := r.projectedTo(a.owner); ok {
		t.Error("it is projected")
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a reconciler without a fleet")
	}
}

func TestStopWhileAgentsHang(t *testing.T) {
	a := newTestAgent(t, testOwner('A'), 7)
	a.mu.Lock()            // every answer waits
	t.Cleanup(a.mu.Unlock) // until Run has ended
	r := run(t, testWorker(1))
	r.advertise(kvstate.SourceTopic, 7, a.source())
	r.until("asked", func() bool { return len(r.Owners()) == 1 })
}
