package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Topics of bindings, as others know them.
const (
	topicV1 = "dynamo.session-affinity.v1"
	topicV2 = "dynamo.session-affinity.v2"
)

// plainPeer is a libzmq peer that knows nothing of Mooring.
type plainPeer struct {
	t  *testing.T
	in io.Writer

	mu   sync.Mutex
	said []plainLine
}

// plainLine is one line that the peer says; see testdata/mesh_peer.py.
type plainLine struct {
	Bound, Lost, Topic, Hex string
	Frames, Flooded         int
	Keys                    []string
	Event                   map[string]string
}

// plainEvent is a binding as such a peer sends it.
type plainEvent struct {
	Model    string  `json:"model_name"`
	Group    string  `json:"routing_group"`
	Session  string  `json:"session_id"`
	Worker   uint64  `json:"worker_id"`
	Rank     *uint32 `json:"dp_rank"`
	Sequence uint64  `json:"sequence"`
	Writer   uint64  `json:"writer_id"`
}

// startPlainPeer starts a peer at an endpoint that hears some replicas.
func startPlainPeer(t *testing.T, at string, hears ...string) *plainPeer {
	t.Helper()
	python := os.Getenv("MOORING_PYTHON")
	if python == "" {
		t.Fatal("the libzmq peer needs a python with pyzmq: run make test, or set MOORING_PYTHON")
	}
	cmd := exec.Command(python, append([]string{"testdata/mesh_peer.py", at}, hears...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &plainPeer{t: t, in: in}
	done := make(chan struct{})
	go func() { defer close(done); p.read(out) }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-done
		cmd.Wait()
	})
	p.waitFor("bound", func(l plainLine) bool { return l.Bound != "" })
	return p
}

func (p *plainPeer) read(out io.Reader) {
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var l plainLine
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			p.t.Errorf("the peer says %s", scanner.Text())
		}
		p.mu.Lock()
		p.said = append(p.said, l)
		p.mu.Unlock()
	}
}

// heard returns the lines that are so.
func (p *plainPeer) heard(so func(plainLine) bool) (lines []plainLine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.said {
		if so(l) {
			lines = append(lines, l)
		}
	}
	return lines
}

func (p *plainPeer) waitFor(what string, so func(plainLine) bool) (first plainLine) {
	p.t.Helper()
	eventually(p.t, 20*time.Second, "the peer says "+what, func() bool {
		lines := p.heard(so)
		if len(lines) > 0 {
			first = lines[0]
		}
		return len(lines) > 0
	})
	return first
}

func (p *plainPeer) order(order any) {
	p.t.Helper()
	text, err := json.Marshal(order)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *plainPeer) publish(topic string, e plainEvent) {
	p.order(map[string]any{"topic": topic, "event": e})
}

// workerIDs returns the ids of the workers by address.
func (r *meshReplica) workerIDs(t *testing.T) map[string]uint64 {
	t.Helper()
	var answer struct {
		Workers []struct {
			WorkerID uint64 `json:"worker_id,string"`
			Address  string
		}
	}
	if _, err := fetch(r.admin+"/v1/workers", &answer); err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]uint64)
	for _, w := range answer.Workers {
		ids[w.Address] = w.WorkerID
	}
	return ids
}

// TestReplicationWithLibzmq joins a plain libzmq peer to two replicas: both
// directions, both topics, heartbeats on, and a silence that is longer than a
// Mooring's may be.
func TestReplicationWithLibzmq(t *testing.T) {
	t.Parallel() // mostly waiting
	at := "tcp://" + freeAddress(t)
	m := newMesh(t, meshOptions{replicas: 2, peers: []string{at}})
	peer := startPlainPeer(t, at, m.replicas[0].mesh, m.replicas[1].mesh)
	r := m.replicas[0]
	eventually(t, 20*time.Second, "connected to both", func() bool {
		return r.peer(t, at).Connected && m.replicas[1].peer(t, at).Connected && r.metric(t, "mooring_mesh_subscribers") >= 2
	})
	worker := slices.Sorted(slices.Values([]string{m.workers[0].address, m.workers[1].address}))[0]
	id, rank := r.workerIDs(t)[worker], uint32(0)

	t.Run("from the peer", func(t *testing.T) {
		for i, topic := range []string{topicV2, topicV1} {
			e := plainEvent{"sim", "default", "plain-" + topic, id, &rank, uint64(time.Now().UnixNano()), 1<<64 - 1}
			if i == 1 {
				e.Rank = nil // any rank of the worker
			}
			eventually(t, 20*time.Second, "the binding on "+topic, func() bool {
				peer.publish(topic, e) // again and again: a subscription takes a moment to reach it
				_, ok := m.replicas[1].table(t)[e.Session]
				return ok && len(r.table(t)) == i+1
			})
			for _, r := range m.replicas {
				if p, err := r.picker.pick(t.Context(), e.Session); err != nil || p.address != worker || p.reason != "bound" {
					t.Errorf("replica %d: %+v, %v; want %s, bound", r.index, p, err, worker)
				}
			}
			if row := r.table(t)[e.Session]; row.Sequence != fmt.Sprint(e.Sequence) || row.WriterID != "18446744073709551615" {
				t.Errorf("the version is %s/%s, want that of the peer %d/%d", row.Sequence, row.WriterID, e.Sequence, e.Writer)
			}
		}
	})

	t.Run("to the peer", func(t *testing.T) {
		var lines []plainLine
		n := 0
		eventually(t, 20*time.Second, "both topics of a binding", func() bool {
			n++
			session := fmt.Sprint("ours-", n)
			r.bind(t, []string{session})
			time.Sleep(50 * time.Millisecond)
			lines = peer.heard(func(l plainLine) bool { return l.Event["session_id"] == session })
			return len(lines) >= 2
		})
		row := r.table(t)[fmt.Sprint("ours-", n)]
		want := []string{"model_name", "routing_group", "session_id", "worker_id", "dp_rank", "sequence", "writer_id"}
		topics := make(map[string]string)
		for _, l := range lines {
			topics[l.Topic] = l.Hex
			if l.Frames != 2 || !slices.Equal(l.Keys[:7], want) || l.Event["worker_id"] != row.WorkerID || l.Event["sequence"] != row.Sequence || l.Event["writer_id"] != row.WriterID {
				t.Errorf("%+v; want two frames, keys %v, and what the table has: %+v", l, want, row)
			}
		}
		if topics[topicV1] == "" || topics[topicV1] != topics[topicV2] {
			t.Errorf("the payloads of the two topics differ: %v", topics)
		}
	})

	t.Run("garbage", func(t *testing.T) { // B65: the connection stays
		for _, payload := range []string{"", "c1", "ddffffffff", "dfffffffff", "c6ffffffff", "d4", strings.Repeat("91", 100_000), "81a474797065a6667574757265"} {
			peer.order(map[string]any{"topic": topicV2, "hex": payload})
		}
		e := plainEvent{"sim", "default", "after garbage", id, &rank, uint64(time.Now().UnixNano()), 7}
		peer.publish(topicV2, e)
		eventually(t, 20*time.Second, "the good one after the bad", func() bool { _, ok := r.table(t)["after garbage"]; return ok })
	})

	t.Run("silence", func(t *testing.T) {
		connected := r.metric(t, "mooring_mesh_lost_total")
		before := len(peer.heard(func(l plainLine) bool { return l.Lost != "" }))
		time.Sleep(7 * time.Second) // longer than a Mooring may be silent: the time is what is tested
		if lost := len(peer.heard(func(l plainLine) bool { return l.Lost != "" })); lost > before {
			t.Errorf("the peer lost its connection %d times", lost-before)
		}
		if got := r.metric(t, "mooring_mesh_lost_total"); got != connected || !r.peer(t, at).Connected {
			t.Errorf("%v connections lost in the silence", got-connected)
		}
	})
}

// TestReplicationFlood is B64: a peer floods two replicas with new ids. Their
// memory stays, their picks stay quick, and bindings still flow between them.
func TestReplicationFlood(t *testing.T) {
	floods := 100_000
	if long() {
		floods = 1_000_000
	}
	at := "tcp://" + freeAddress(t)
	m := newMesh(t, meshOptions{replicas: 2, peers: []string{at}, plain: true, yaml: "session: {max_sessions: 5000}"})
	peer := startPlainPeer(t, at)
	a, b := m.replicas[0], m.replicas[1]
	eventually(t, 20*time.Second, "connected", func() bool { return a.peer(t, at).Connected && b.peer(t, at).Connected })
	went := a.bind(t, names("s", 500))
	m.equalTables(10*time.Second, a, b)
	var id uint64
	for _, one := range a.workerIDs(t) {
		id = one
	}
	before := a.rss()
	peer.order(map[string]any{"flood": floods, "event": plainEvent{"sim", "default", "", id, nil, uint64(time.Now().UnixNano()), 7}})
	f := a.flow("during", 100)
	eventually(t, 5*time.Minute, "the peer has flooded", func() bool {
		return len(peer.heard(func(l plainLine) bool { return l.Flooded == floods })) == 1
	})
	for session, address := range f.stop() {
		went[session] = address
	}
	grown := a.rss() - before
	t.Logf("%d ids: memory +%d MiB, slowest of %d picks %v, %v messages found a full queue",
		floods, grown>>20, len(went)-500, time.Duration(f.slowest.Load()), a.metric(t, "mooring_mesh_dropped_total"))
	if grown > 96<<20 || f.failed.Load() > 0 {
		t.Errorf("memory +%d MiB, %d picks failed", grown>>20, f.failed.Load())
	}
	// Those that found the tables full are not at the other one; nobody moves who
	// was there before.
	for _, r := range m.replicas {
		some := make(map[string]string)
		for _, session := range names("s", 500) {
			some[session] = went[session]
		}
		if moved := r.moved(t, some); moved > 0 {
			t.Errorf("replica %d: %d of 500 sessions moved by a flood", r.index, moved)
		}
	}
}
