package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// meshStack is several replicas with one list of workers, each a process of its
// own, that replicate to one another. Requests are asked for directly, without
// an Envoy; see meshStack.startMeshEnvoy for one.
type meshStack struct {
	*stack
	program  string // the extproc to run
	options  meshOptions
	replicas []*meshReplica
}

// meshReplica is one replica; a restarted one is a new value.
type meshReplica struct {
	*process
	index  int
	mesh   string // its endpoint
	via    string // where the others reach it; "": there
	admin  string // URL of its admin API, once it is ready
	picker *picker
}

// meshOptions says what differs from the plain mesh.
type meshOptions struct {
	replicas    int
	replication string   // further keys of replication, as text
	peers       []string // further peers of each replica
	yaml        string   // further top-level keys
	plain       bool     // run without the race detector: for numbers
}

// plainBinary builds the command without the race detector, once.
var plainBinary = sync.OnceValues(func() (string, error) {
	path := binary + "-plain"
	out, err := exec.Command("go", "build", "-o", path, "../cmd/extproc").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build extproc: %w\n%s", err, out)
	}
	return path, nil
})

// newMesh starts three workers and the replicas, and waits until these are ready.
func newMesh(t *testing.T, options meshOptions) *meshStack {
	t.Helper()
	m := prepareMesh(t, options)
	for i := range m.replicas {
		m.start(i)
	}
	for i := range m.replicas {
		m.await(i)
	}
	return m
}

// prepareMesh starts the workers, and chooses where the replicas are to be.
func prepareMesh(t *testing.T, options meshOptions) *meshStack {
	t.Helper()
	m := &meshStack{stack: &stack{t: t, dir: t.TempDir()}, program: binary, options: options}
	if options.plain {
		var err error
		if m.program, err = plainBinary(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		m.startWorker("sim")
	}
	m.writeWorkers()
	for i := range cmp.Or(options.replicas, 3) {
		m.replicas = append(m.replicas, &meshReplica{index: i, mesh: "tcp://" + freeAddress(t)})
	}
	return m
}

// freeAddress returns a loopback address that nobody listens on, with a port that
// no outgoing connection is given.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(15000+rand.IntN(15000)))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// configure writes the configuration of replica i, with the peers as they are now.
func (m *meshStack) configure(i int) (path string) {
	var peers []string
	for j, r := range m.replicas {
		endpoint := r.mesh // its own too, as a list that all replicas share has it
		if j != i {
			endpoint = cmp.Or(r.via, r.mesh)
		}
		peers = append(peers, strconv.Quote(endpoint))
	}
	for _, p := range m.options.peers {
		peers = append(peers, strconv.Quote(p))
	}
	replication := m.options.replication
	if !strings.Contains(replication, "sync_timeout") {
		// On a machine that is busy with other tests no time makes a replica ready.
		replication += "\nsync_timeout: 20s"
	}
	name := fmt.Sprintf("replica%d.yaml", i)
	m.write(name, fmt.Sprintf(`
listen: {extproc: "unix://%s", admin: "127.0.0.1:0"}
workers:
  file: workers.yaml
  health: {path: /health, interval: 500ms, timeout: 5s, unhealthy_after: 3, healthy_after: 1}
envoy: {listener: "127.0.0.1:0", endpoints_file: endpoints%d/workers.yaml}
shutdown: {drain: 2s}
replication:
  listen: %s
  peers: [%s]
  digest_interval: 1s
%s
%s`, m.socket(i), i, m.replicas[i].mesh, strings.Join(peers, ", "), indent(replication), m.options.yaml))
	return filepath.Join(m.dir, name)
}

func (m *meshStack) socket(i int) string { return filepath.Join(m.dir, fmt.Sprintf("r%d.sock", i)) }

// start starts replica i, again if it ran before.
func (m *meshStack) start(i int) *meshReplica {
	m.t.Helper()
	r := &meshReplica{index: i, mesh: m.replicas[i].mesh, via: m.replicas[i].via, picker: newPicker(m.t, "unix://"+m.socket(i))}
	config := m.configure(i)
	r.process = runCommand(m.t, m.program, nil, fmt.Sprintf("replica %d", i), "serve", "--config", config)
	m.replicas[i] = r
	return r
}

// await waits until replica i is ready.
func (m *meshStack) await(i int) *meshReplica {
	m.t.Helper()
	r := m.replicas[i]
	r.admin = "http://" + r.waitLog("ready")["admin"].(string)
	return r
}

// names returns n session ids.
func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return all
}

// bind has a replica pick for each session, several at a time, and returns where
// each went.
func (r *meshReplica) bind(t *testing.T, sessions []string) map[string]string {
	t.Helper()
	const parallel = 16
	var mu sync.Mutex
	went := make(map[string]string, len(sessions))
	work := make(chan string)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for session := range work {
				p, err := r.picker.pick(context.Background(), session)
				if err != nil {
					t.Errorf("replica %d, session %s: %v", r.index, session, err)
					continue
				}
				mu.Lock()
				went[session] = p.address
				mu.Unlock()
			}
		})
	}
	for _, session := range sessions {
		work <- session
	}
	close(work)
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return went
}

// moved counts the sessions that a replica sends elsewhere than they went.
func (r *meshReplica) moved(t *testing.T, went map[string]string) (moved int) {
	t.Helper()
	sessions := make([]string, 0, len(went))
	for session := range went {
		sessions = append(sessions, session)
	}
	for session, address := range r.bind(t, sessions) {
		if went[session] != address {
			moved++
		}
	}
	return moved
}

// long reports whether the long forms of tests are to run.
func long() bool { return os.Getenv("MOORING_LONG") != "" }

// replaceAdmin returns a configuration file's text with a fixed admin address.
func replaceAdmin(t *testing.T, path, admin string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(text), `admin: "127.0.0.1:0"`, fmt.Sprintf("admin: %q", admin), 1)
}
