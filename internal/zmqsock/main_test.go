package zmqsock_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mooring/internal/zmqsock"
)

// The one goroutine allowed to stay is what the library's own PUB leaves behind
// at each Close; only the benchmarks, which measure it, make one.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/go-zeromq/zmq4.(*pubMWriter).run"))
}

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = 20 * time.Second

// ends is a logger that tells the reasons for which connections ended, after
// they are counted.
type ends chan string

func (e ends) Enabled(context.Context, slog.Level) bool { return true }
func (e ends) WithAttrs([]slog.Attr) slog.Handler       { return e }
func (e ends) WithGroup(string) slog.Handler            { return e }
func (e ends) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "reason" {
			select {
			case e <- a.Value.String():
			default:
			}
		}
		return true
	})
	return nil
}

func newEnds() (ends, *slog.Logger) {
	e := make(ends, 1<<14)
	return e, slog.New(e)
}

func listen(t testing.TB, cfg zmqsock.PublisherConfig) *zmqsock.Publisher {
	t.Helper()
	if cfg.Endpoint == "" {
		cfg.Endpoint = "tcp://127.0.0.1:0"
	}
	p, err := zmqsock.Listen(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// A subscription is a running Subscriber.
type subscription struct {
	*zmqsock.Subscriber
	events chan zmqsock.Event
	stop   func()
}

func subscribe(t testing.TB, cfg zmqsock.SubscriberConfig) *subscription {
	t.Helper()
	if cfg.Topics == nil {
		cfg.Topics = []string{""}
	}
	events := make(chan zmqsock.Event, 1<<14)
	cfg.Notify = func(e zmqsock.Event) {
		select {
		case events <- e:
		default:
		}
	}
	s, err := zmqsock.NewSubscriber(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	sub := &subscription{s, events, func() { cancel(); <-ended }}
	t.Cleanup(sub.stop)
	return sub
}

func receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case v, ok := <-from:
		if !ok {
			t.Fatalf("closed while waiting for %s", what)
		}
		return v
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		t.Fatalf("no %s\n%s", what, buf[:runtime.Stack(buf, true)])
	}
	panic("unreachable")
}

// until receives until good says so, and returns what it said so of.
func until[T any](t testing.TB, from <-chan T, what string, good func(T) bool) T {
	t.Helper()
	for {
		if v := receive(t, from, what); good(v) {
			return v
		}
	}
}

// join publishes message until s gets it: a subscription needs a moment to
// arrive, and nothing says when it has.
func join(t testing.TB, p *zmqsock.Publisher, s *subscription, message string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		select {
		case m := <-s.Messages():
			if string(m.Frames[0]) == message {
				return
			}
		case <-tick.C:
			if err := p.Publish([][]byte{[]byte(message)}); err != nil {
				t.Fatal(err)
			}
		case <-late:
			t.Fatalf("%q never arrived", message)
		}
	}
}

// python finds the interpreter that has pyzmq.
func python(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("MOORING_PYTHON"); p != "" {
		return p
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		p := filepath.Join(dir, ".tools/venv/bin/python")
		if _, err := os.Stat(p); err == nil {
			return p
		}
		if filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	const last = "/work/main/.tools/venv/bin/python"
	if _, err := os.Stat(last); err != nil {
		t.Fatalf("no python with pyzmq: set MOORING_PYTHON or run make test: %v", err)
	}
	return last
}
