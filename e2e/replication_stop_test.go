package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// flow binds new sessions at a replica until stopped, at about the given rate,
// and notes how long the picks took.
type flow struct {
	stop    func() map[string]string // returns where each session went
	slowest atomic.Int64             // nanoseconds
	failed  atomic.Int64
	why     atomic.Pointer[error] // of one that failed
}

func (r *meshReplica) flow(prefix string, perSecond int) *flow {
	const parallel = 16
	f := &flow{}
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	went := make(map[string]string)
	work := make(chan int)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(work)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n, began := 0, time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for due := int(time.Since(began).Seconds() * float64(perSecond)); n < due; {
				select {
				case work <- n:
					n++
				case <-ctx.Done():
					return
				}
			}
		}
	})
	for range parallel {
		wg.Go(func() {
			for n := range work {
				session := fmt.Sprintf("%s-%d", prefix, n)
				began := time.Now()
				p, err := r.picker.pick(context.Background(), session)
				if err != nil {
					f.failed.Add(1)
					f.why.Store(&err)
					continue
				}
				if took := int64(time.Since(began)); took > f.slowest.Load() {
					f.slowest.Store(took) // about: the last writer may be a shorter one
				}
				mu.Lock()
				went[session] = p.address
				mu.Unlock()
			}
		})
	}
	f.stop = func() map[string]string {
		cancel()
		wg.Wait()
		return went
	}
	return f
}

// TestReplicationStoppedReplica is B62 and B63: one of three replicas is stopped
// for 10 s while bindings flow at another. The others lose nothing and their
// memory stays; when it goes on it is not ready until it has caught up.
func TestReplicationStoppedReplica(t *testing.T) {
	m := newMesh(t, meshOptions{plain: true, yaml: "session: {max_sessions: 200000}\nrequest: {end: stream}"})
	a, b, stopped := m.replicas[0], m.replicas[1], m.replicas[2]
	before := [2]int64{a.rss(), b.rss()}
	stopped.signal(syscall.SIGSTOP)
	began := time.Now()
	f := a.flow("s", 5000)
	eventually(t, 20*time.Second, "the others notice that it is silent", func() bool { return !a.peer(t, stopped.mesh).Connected })
	noticed := time.Since(began)
	var most [2]int64
	for time.Since(began) < 10*time.Second {
		most[0], most[1] = max(most[0], a.rss()-before[0]), max(most[1], b.rss()-before[1])
		time.Sleep(100 * time.Millisecond) // the time is what is tested
	}
	went := f.stop()
	rows := m.equalTables(10*time.Second, a, b)
	// A binding is held by the table too; what is left is the mesh's.
	const perBinding = 1200
	t.Logf("%d bindings in 10 s, %.0f/s; silence noticed after %v; memory of the two others +%d and +%d MiB, slowest pick %v",
		len(went), float64(len(went))/time.Since(began).Seconds(), noticed.Round(time.Millisecond), most[0]>>20, most[1]>>20, time.Duration(f.slowest.Load()))
	for i, grown := range most {
		if grown > 64<<20+int64(len(went))*perBinding {
			t.Errorf("the memory of replica %d has grown by %d MiB", i, grown>>20)
		}
	}
	if f.failed.Load() > 0 || len(rows) != len(went) {
		t.Errorf("%d picks failed; %d bindings of %d at the others", f.failed.Load(), len(rows), len(went))
	}
	if holes := b.peer(t, a.mesh).Holes; holes > 0 {
		t.Errorf("%d messages were lost between the two others", holes)
	}
	stopped.signal(syscall.SIGCONT)
	began = time.Now()
	refused := 0
	for session, address := range went { // each is either refused or right
		p, err := stopped.picker.pick(t.Context(), session)
		if err != nil {
			refused++
		} else if p.address != address {
			t.Fatalf("session %s moved from %s to %s after the stop, %v after it", session, address, p.address, time.Since(began))
		}
		if refused > 0 && err == nil {
			break
		}
	}
	if refused == 0 {
		t.Error("a replica that was stopped for 10 s picked at once")
	}
	eventually(t, 20*time.Second, "ready again", func() bool { return stopped.readiness(t).Ready })
	t.Logf("ready again %v after it went on, by %s, %d picks refused", time.Since(began).Round(time.Millisecond), stopped.readiness(t).Replication, refused)
	m.equalTables(20*time.Second, m.replicas...)
	if moved := stopped.moved(t, went); moved > 0 {
		t.Errorf("%d of %d sessions moved at the replica that was stopped", moved, len(went))
	}
}

// TestReplicationShortStop: nothing is missed in a second, and nothing refused.
func TestReplicationShortStop(t *testing.T) {
	t.Parallel() // mostly waiting
	m := newMesh(t, meshOptions{})
	went := m.replicas[0].bind(t, names("before", 100))
	m.equalTables(5*time.Second, m.replicas...)
	r := m.replicas[2]
	r.signal(syscall.SIGSTOP)
	time.Sleep(time.Second) // the time is what is tested
	r.signal(syscall.SIGCONT)
	if moved := r.moved(t, went); moved > 0 {
		t.Errorf("%d of 100 sessions moved", moved)
	}
}

// TestReplicationReadyzWhileJoining: it says why the replica is not ready, and
// afterwards that only time made it so.
func TestReplicationReadyzWhileJoining(t *testing.T) {
	t.Parallel() // mostly waiting
	m := prepareMesh(t, meshOptions{replicas: 2, replication: "sync_timeout: 3s"})
	// Its peer does not run yet. The admin address is logged when it is ready; here
	// it must be known before.
	admin := freeAddress(t)
	path := m.configure(0)
	m.write("replica0.yaml", replaceAdmin(t, path, admin))
	r := m.replicas[0]
	r.process = runCommand(t, m.program, nil, "replica 0", "serve", "--config", path)
	r.admin = "http://" + admin
	var state readiness
	eventually(t, 10*time.Second, "an answer", func() bool {
		status, err := fetch(r.admin+"/readyz", &state)
		return err == nil && status == http.StatusServiceUnavailable && state.Replication == "joining" && len(state.Reasons) == 1
	})
	m.await(0)
	state = r.readiness(t)
	if !state.Ready || state.Replication != "timeout" || len(state.Warnings) != 2 {
		t.Errorf("%+v; want ready by timeout, with warnings that nobody is connected and why it is ready", state)
	}
	if r.metric(t, "mooring_mesh_joined") != 1 || r.metric(t, "mooring_peer_connected") != 0 {
		t.Error("the metrics do not say so")
	}
	m.start(1)
	m.await(1)
	eventually(t, 10*time.Second, "no warnings once the peer is there", func() bool { return len(r.readiness(t).Warnings) == 0 })
}
