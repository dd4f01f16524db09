package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
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

// fetch reads JSON, whatever the status.
func fetch(url string, into any) (status int, err error) {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return 0, fmt.Errorf("%w in %s", err, body)
	}
	return resp.StatusCode, nil
}

// sessionRow is what tests look at in /v1/sessions.
type sessionRow struct {
	Session  string
	WorkerID string `json:"worker_id"`
	Sequence string
	WriterID string `json:"writer_id"`
	Leases   int
}

// table returns all bindings of a replica, without what is local to it.
func (r *meshReplica) table(t *testing.T) map[string]sessionRow {
	t.Helper()
	rows := make(map[string]sessionRow)
	for after := ""; ; {
		var page struct {
			Sessions []sessionRow
			Next     string
		}
		if status, err := fetch(r.admin+"/v1/sessions?limit=10000&after="+after, &page); err != nil || status != http.StatusOK {
			t.Fatalf("replica %d: status %d, %v", r.index, status, err)
		}
		for _, row := range page.Sessions {
			row.Leases = 0
			rows[row.Session] = row
		}
		if after = page.Next; after == "" {
			return rows
		}
	}
}

// peerRow is one element of /v1/peers.
type peerRow struct {
	Endpoint       string
	ReplicaID      *string `json:"replica_id"`
	Connected      bool
	LastHeard      *int64 `json:"last_heard_ms"`
	Holes          uint64
	Differing      int
	ConvergedSince *time.Time `json:"converged_since"`
}

// peer returns what a replica says of the one at an endpoint.
func (r *meshReplica) peer(t *testing.T, endpoint string) peerRow {
	t.Helper()
	var answer struct{ Peers []peerRow }
	if status, err := fetch(r.admin+"/v1/peers", &answer); err != nil || status != http.StatusOK {
		t.Fatalf("replica %d: status %d, %v", r.index, status, err)
	}
	for _, p := range answer.Peers {
		if p.Endpoint == endpoint {
			return p
		}
	}
	t.Fatalf("replica %d has no peer %s: %+v", r.index, endpoint, answer.Peers)
	return peerRow{}
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready       bool
	Reasons     []string
	Warnings    []string
	Replication string
}

func (r *meshReplica) readiness(t *testing.T) (state readiness) {
	t.Helper()
	if _, err := fetch(r.admin+"/readyz", &state); err != nil {
		t.Fatalf("replica %d: %v", r.index, err)
	}
	return state
}

func (r *meshReplica) metric(t *testing.T, name string) float64 {
	t.Helper()
	return sumMetric(t, r.admin+"/metrics", name)
}

// equalTables waits until the replicas hold the same bindings, and returns them.
func (m *meshStack) equalTables(limit time.Duration, replicas ...*meshReplica) (rows map[string]sessionRow) {
	m.t.Helper()
	var difference string
	deadline := time.Now().Add(limit)
	for {
		rows, difference = replicas[0].table(m.t), ""
		for _, r := range replicas[1:] {
			difference += compareTables(rows, r.table(m.t), replicas[0].index, r.index)
		}
		switch {
		case difference == "":
			return rows
		case time.Now().After(deadline):
			m.t.Fatalf("tables differ after %v: %s", limit, difference)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func compareTables(a, b map[string]sessionRow, i, j int) string {
	missing, other := 0, 0
	for session, row := range a {
		switch got, ok := b[session]; {
		case !ok:
			missing++
		case got != row:
			other++
		}
	}
	if extra := len(b) - (len(a) - missing); missing+other+extra > 0 {
		return fmt.Sprintf("%d of replica %d are missing at %d, %d are others, %d more; ", missing, i, j, other, extra)
	}
	return ""
}

// rss returns the resident memory of a process in bytes.
func (p *process) rss() int64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(kib)[0], 10, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return n << 10
		}
	}
	p.t.Fatal("no VmRSS")
	return 0
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

// seriesOf returns one series at a Prometheus endpoint; 0 if it is not there.
func seriesOf(t *testing.T, url, series string) float64 {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return 0
}
