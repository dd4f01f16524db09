package envoy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	logdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"mooring/envoy"
	"mooring/internal/envoyproc"
	"mooring/internal/fleet"
)

// bound is how long anything may take that waits for the real binary.
const bound = 20 * time.Second

// rig is a real Envoy between a client, a picker and workers.
type rig struct {
	*picker
	t       *testing.T
	envoy   *envoyproc.Process
	server  *grpc.Server // the picker's; nil if the test brought its own
	log     *syncBuffer
	cfg     envoy.Config
	edit    func(*bootstrapv3.Bootstrap) // what differs from the generated configuration; nil: nothing
	workers []*worker
	client  *http.Client
	url     string
}

// worker is a backend that says who it is and what it was sent.
type worker struct {
	*httptest.Server
	name    string
	address string
	chunk   chan string  // what /stream sends; closed: its end
	tries   atomic.Int64 // of /flaky, whose first breaks off
}

func startRig(t *testing.T, change func(*envoy.Config), options ...grpc.ServerOption) *rig {
	t.Helper()
	return startEditedRig(t, change, nil, options...)
}

// startEditedRig also edits the generated configuration, to learn what Envoy
// does with another one.
func startEditedRig(t *testing.T, change func(*envoy.Config), edit func(*bootstrapv3.Bootstrap), options ...grpc.ServerOption) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{picker: newPicker(), t: t, edit: edit, log: &syncBuffer{}, client: &http.Client{Transport: &http.Transport{}, Timeout: bound}}
	t.Cleanup(r.client.CloseIdleConnections)
	for _, name := range []string{"one", "two", "three"} {
		r.workers = append(r.workers, startWorker(t, name))
	}
	r.cfg = envoy.Config{
		Listeners:     []envoy.Listener{{Name: "in", Address: "127.0.0.1:0"}},
		EndpointsFile: filepath.Join(dir, "eds", "workers.yaml"),
		AdminAddress:  "127.0.0.1:0",
	}
	if change != nil {
		change(&r.cfg)
	}
	if r.cfg.Listeners[0].ExtProc == "" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		r.cfg.Listeners[0].ExtProc = listener.Addr().String()
		r.server = r.serve(listener, options...)
		t.Cleanup(r.server.Stop)
		t.Cleanup(r.letGo)
	}
	if err := envoy.WriteEndpoints(r.cfg.EndpointsFile, r.view(r.workers...)); err != nil {
		t.Fatal(err)
	}
	r.startEnvoy()
	return r
}

func (r *rig) startEnvoy() {
	r.t.Helper()
	bootstrap, err := r.bootstrap()
	if err != nil {
		r.t.Fatal(err)
	}
	r.envoy, err = envoyproc.Start(r.t.Context(), envoyproc.Config{Bootstrap: bootstrap, Concurrency: 1, Log: r.log})
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.log)
	}
	r.t.Cleanup(func() {
		if err := r.envoy.Kill(); err != nil {
			r.t.Error(err)
		}
		if r.t.Failed() {
			r.t.Logf("envoy's log:\n%s", r.log)
		}
	})
	address, ok := r.envoy.Listener("in")
	if !ok {
		r.t.Fatal("no listener")
	}
	r.url = "http://" + address
}

func (r *rig) bootstrap() ([]byte, error) {
	if r.edit == nil {
		return envoy.BootstrapYAML(r.cfg)
	}
	b, err := envoy.Bootstrap(r.cfg)
	if err != nil {
		return nil, err
	}
	r.edit(b)
	return protojson.Marshal(b)
}

func (r *rig) view(workers ...*worker) *fleet.View {
	var list []fleet.Worker
	for i, w := range workers {
		list = append(list, fleet.Worker{ID: fleet.WorkerID(i + 1), Address: w.address, Models: []string{"m"}, Group: "default", Ranks: 1, State: fleet.Active})
	}
	return fleet.NewView(list)
}

func startWorker(t *testing.T, name string) *worker {
	w := &worker{name: name, chunk: make(chan string)}
	w.Server = httptest.NewServer(w)
	w.address = w.Listener.Addr().String()
	t.Cleanup(func() { w.CloseClientConnections(); w.Close() })
	return w
}

// seen is what a worker says it was sent.
type seen struct {
	Worker        string
	Headers       http.Header
	ContentLength int64
	Body          int    // bytes
	SHA256        string // of the body, hex
	Trailers      http.Header
}

func (w *worker) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	switch req.URL.Path {
	case "/stream":
		w.stream(rw, req)
	case "/upgrade":
		w.upgrade(rw)
	case "/flaky":
		if w.tries.Add(1) == 1 {
			panic(http.ErrAbortHandler) // closes the connection without an answer
		}
		w.tell(rw, req)
	case "/hints":
		rw.Header().Set("Link", "</a>; rel=preload")
		rw.WriteHeader(http.StatusEarlyHints)
		rw.Header().Del("Link")
		io.WriteString(rw, "{}")
	case "/spoof":
		rw.Header().Set("x-mooring-worker", "spoofed")
		rw.Header().Set("x-mooring-reason", "spoofed")
	default:
		w.tell(rw, req)
	}
}

// tell answers with what the worker was sent.
func (w *worker) tell(rw http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	json.NewEncoder(rw).Encode(seen{w.name, req.Header, req.ContentLength, len(body), fmt.Sprintf("%x", sha256.Sum256(body)), req.Trailer})
}

// upgrade answers every line with the worker's name and the line.
func (w *worker) upgrade(rw http.ResponseWriter) {
	conn, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	for {
		line, err := buffered.ReadString('\n')
		if err != nil {
			return
		}
		io.WriteString(conn, w.name+": "+line)
	}
}

func (w *worker) stream(rw http.ResponseWriter, req *http.Request) {
	io.Copy(io.Discard, req.Body)
	flush := http.NewResponseController(rw)
	flush.Flush()
	for {
		select {
		case text, more := <-w.chunk:
			if !more {
				return
			}
			io.WriteString(rw, text)
			flush.Flush()
		case <-req.Context().Done():
			return
		}
	}
}

func (r *rig) request(ctx context.Context, path string, body io.Reader, headers ...string) *http.Request {
	r.t.Helper()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return req
}

// reply is a response that has been read.
type reply struct {
	status int
	header http.Header
	body   string
	seen   seen
}

// send sends a request with the given headers, name and value in turn.
func (r *rig) send(path string, body io.Reader, headers ...string) reply {
	r.t.Helper()
	resp, err := r.client.Do(r.request(r.t.Context(), path, body, headers...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	if resp.StatusCode == http.StatusOK && strings.HasPrefix(a.body, "{") {
		if err := json.Unmarshal(text, &a.seen); err != nil {
			r.t.Fatal(err)
		}
	}
	return a
}

func (r *rig) get(headers ...string) reply { r.t.Helper(); return r.send("/", nil, headers...) }
func (r *rig) post(headers ...string) reply {
	r.t.Helper()
	return r.send("/", strings.NewReader("{}"), headers...)
}

// open sends a request for a response that streams, and returns it once it has
// begun.
func (r *rig) open(ctx context.Context, body io.Reader, w *worker) *http.Response {
	r.t.Helper()
	resp, err := r.client.Do(r.request(ctx, "/stream", body, "x-test-pick", w.address))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		r.t.Fatalf("got %d %s", resp.StatusCode, text)
	}
	return resp
}

// say makes a worker that streams a response send text.
func (w *worker) say(t *testing.T, text string) {
	t.Helper()
	select {
	case w.chunk <- text:
	case <-time.After(bound):
		t.Fatalf("worker %s streams no response", w.name)
	}
}

// entry waits for the next access log entry.
func (r *rig) entry() *logdatav3.HTTPAccessLogEntry {
	r.t.Helper()
	return receive(r.t, r.entries, "an access log entry")
}

func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(bound):
		t.Fatalf("%s did not come within %v", what, bound)
		panic("not reached")
	}
}

// eventually waits for a condition of the real binary.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(bound)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", bound, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (r *rig) stats(filter string) map[string]uint64 {
	r.t.Helper()
	stats, err := r.envoy.Stats(r.t.Context(), filter)
	if err != nil {
		r.t.Fatal(err)
	}
	return stats
}

func (r *rig) hosts() []string {
	r.t.Helper()
	hosts, err := r.envoy.Hosts(r.t.Context(), envoy.WorkersCluster)
	if err != nil {
		r.t.Fatal(err)
	}
	return hosts
}

func (r *rig) waitForHosts(n int) {
	r.t.Helper()
	eventually(r.t, "envoy knows the workers in the file", func() bool { return len(r.hosts()) == n })
}

type syncBuffer struct {
	mu struct {
		sync.Mutex
		b bytes.Buffer
	}
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.b.String()
}
