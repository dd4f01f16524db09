package discovery_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mooring/internal/discovery"
	"mooring/internal/fleet"
)

const (
	w1 = "10.0.0.1:8000"
	w2 = "10.0.0.2:8000"
	w3 = "10.0.0.3:8000"
)

// publishGap is the least time between two views that time and probes cause.
const publishGap = 50 * time.Millisecond

// answer is how a simulated worker answers its probes.
type answer int

const (
	well   answer = iota // 200
	broken               // 503
	dead                 // no connection
	mute                 // no answer
)

// workers carries probes to simulated workers, which are well unless told
// otherwise. It is an http.RoundTripper.
type workers struct {
	mu struct {
		sync.Mutex
		answers  map[string]answer // by address
		probes   map[string][]time.Duration
		inFlight int
		most     int
	}
	start time.Time
}

func (w *workers) are(a answer, addresses ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, address := range addresses {
		w.mu.answers[address] = a
	}
}

// probes returns when an address was probed, since the start.
func (w *workers) probes(address string) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.probes[address]
}

func (w *workers) mostInFlight() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.most
}

func (w *workers) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	a := w.mu.answers[req.URL.Host]
	w.mu.probes[req.URL.Host] = append(w.mu.probes[req.URL.Host], time.Since(w.start))
	w.mu.inFlight++
	w.mu.most = max(w.mu.most, w.mu.inFlight)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mu.inFlight--
	}()
	status := http.StatusOK
	switch a {
	case broken:
		status = http.StatusServiceUnavailable
	case dead:
		return nil, errors.New("connection refused")
	case mute:
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("ok"))}, nil
}

// bubble is a Discovery among simulated workers and names, in a synctest bubble.
type bubble struct {
	*discovery.Discovery
	*workers
	t        *testing.T
	start    time.Time
	registry *prometheus.Registry
	log      lockedBuffer
	names    struct {
		sync.Mutex
		addresses map[string][]string
		lookups   int
		takes     time.Duration // a lookup
	}
}

var probing = discovery.Health{Path: "/health", Interval: 2 * time.Second, Timeout: time.Second, UnhealthyAfter: 2, HealthyAfter: 3}

// inBubble runs test in a bubble. The bubble fails if the Discovery leaves a
// goroutine behind.
func inBubble(t *testing.T, cfg discovery.Config, test func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{t: t, start: time.Now(), registry: prometheus.NewRegistry(), workers: &workers{start: time.Now()}}
		b.workers.mu.answers = make(map[string]answer)
		b.workers.mu.probes = make(map[string][]time.Duration)
		b.names.addresses = make(map[string][]string)
		cfg.Transport, cfg.Registerer = b.workers, b.registry
		cfg.Resolve = b.resolve
		cfg.Logger = slog.New(slog.NewTextHandler(&b.log, nil))
		b.Discovery = discovery.New(cfg)
		test(b)
	})
}

// run starts Run, to be stopped when the test ends, and waits for the first
// round to settle and to be logged.
func (b *bubble) run() {
	b.t.Helper()
	b.begin()
	<-b.Settled()
	synctest.Wait()
}

func (b *bubble) begin() {
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("Run: %v", err)
		}
	})
}

func (b *bubble) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	b.names.Lock()
	b.names.lookups++
	addresses, ok := b.names.addresses[host]
	takes := b.names.takes
	b.names.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !ok {
		return nil, errors.New("no such host")
	}
	var ips []netip.Addr
	for _, a := range addresses {
		ips = append(ips, netip.MustParseAddr(a))
	}
	return ips, nil
}

// resolvesTo sets the addresses of a name; none: the lookup fails.
func (b *bubble) resolvesTo(host string, addresses ...string) {
	b.names.Lock()
	defer b.names.Unlock()
	delete(b.names.addresses, host)
	if len(addresses) > 0 {
		b.names.addresses[host] = addresses
	}
}

// lookups returns how many names were looked up.
func (b *bubble) lookups() int {
	b.names.Lock()
	defer b.names.Unlock()
	return b.names.lookups
}

// wait lets time pass and everything come to rest.
func (b *bubble) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// worker returns a worker of the newest view by its configured address.
func (b *bubble) worker(name string) *fleet.Worker {
	for _, w := range b.Live().View().Workers() {
		if w.Name == name {
			return w
		}
	}
	return nil
}

// wantState checks a worker's state, "" for none of that name.
func (b *bubble) wantState(name, want string) {
	b.t.Helper()
	got := ""
	if w := b.worker(name); w != nil {
		got = w.State.String()
	}
	if got != want {
		b.t.Errorf("at %v: %s is %q, want %q", time.Since(b.start), name, got, want)
	}
}

// wantLogged checks how many log lines hold text.
func (b *bubble) wantLogged(text string, want int) {
	b.t.Helper()
	if got := strings.Count(b.log.String(), text); got != want {
		b.t.Errorf("%q is in %d log lines, want %d; the log:\n%s", text, got, want, b.log.String())
	}
}

// wantMetric checks the value of a series, named as on the metrics page.
func (b *bubble) wantMetric(series string, want float64) {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf("{%s=%q}", l.GetName(), l.GetValue())
			}
			if name != series {
				continue
			}
			if got := m.GetCounter().GetValue() + m.GetGauge().GetValue(); got != want {
				b.t.Errorf("%s is %v, want %v", series, got, want)
			}
			return
		}
	}
	b.t.Errorf("there is no %s", series)
}

// specs lists workers by address.
func specs(addresses ...string) []discovery.Spec {
	list := make([]discovery.Spec, len(addresses))
	for i, a := range addresses {
		list[i].Address = a
	}
	return list
}

// lockedBuffer is a bytes.Buffer for a logger and a test.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}
