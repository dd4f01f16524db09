package feed

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mooring/internal/fleet"
	"mooring/internal/zmqsock"
	"mooring/kvstate"
	"mooring/kvstate/index"
)

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = 20 * time.Second

// A running feed over TCP.
type running struct {
	*Feed
	t       *testing.T
	changed chan struct{}
	stop    func()
}

func run(t *testing.T, cfg Config) *running {
	t.Helper()
	r := &running{t: t, changed: make(chan struct{}, 1)}
	cfg.Worker, cfg.PublisherID = kvstate.Worker{WorkerID: 1}, 1
	cfg.Index = index.NewSet(index.Config{MaxBlocks: 1 << 16}).Open(fleet.Partition{})
	told := cfg.Changed
	cfg.Changed = func() {
		if told != nil {
			told()
		}
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
	var err error
	if r.Feed, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != context.Canceled {
				t.Errorf("run: %v", err)
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

// until waits for a state, publishing by kick now and then: when a subscription
// has arrived nobody says, and a lost batch shows only at the next one.
func (r *running) until(what string, kick func(), good func(d Details) bool) Details {
	r.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		if d := r.Details(); good(d) {
			return d
		}
		select {
		case <-r.changed:
		case <-tick.C:
			kick()
		case <-late:
			r.t.Fatalf("never %s: %+v", what, r.Details())
		}
	}
}

func (r *running) blocks() int {
	return r.cfg.Index.Blocks(r.owners[kvstate.WorkerDomain])
}

// block is a batch that stores one block, the n-th of one chain.
func block(t testing.TB, n int) []byte {
	parent := "null"
	if n > 0 {
		parent = fmt.Sprint(n)
	}
	return pack(t, fmt.Sprintf(`[0, [["BlockStored", [%d], %s, [%d, %d], 2]], 0]`, n+1, parent, n, n))
}

// A libzmq PUB and ROUTER: history before us, both shapes of replies, a gap, a
// history that is gone, and a new process.
func TestLibzmqEngine(t *testing.T) {
	e := startEngine(t)
	for i := range 3 {
		e.tell("lose %x", block(t, i))
	}
	f := run(t, Config{Endpoint: e.pub, Replay: e.router})
	f.until("history", func() {}, func(d Details) bool { return d.LastSeq == 2 && d.State == Following })
	n := 3
	next := func() { e.tell("publish %x", block(t, n)); n++ }
	f.until("live batches", next, func(d Details) bool { return d.LastSeq >= 4 })

	e.tell("topic")
	e.tell("lose %x", block(t, n))
	lost := uint64(n)
	n++
	f.until("gap repaired", next, func(d Details) bool { return d.LastSeq > lost && d.State == Following })
	d := f.until("all applied", func() {}, func(d Details) bool { return d.LastSeq == uint64(n-1) })
	if d.Gaps != 0 || d.Holed || f.blocks() != n {
		t.Errorf("%d blocks of %d, %+v", f.blocks(), n, d)
	}

	for range 3 {
		e.tell("lose %x", block(t, n))
		n++
	}
	e.tell("forget 1")
	d = f.until("gap that is gone", next, func(d Details) bool { return d.Gaps == 1 })
	if !d.Holed || d.Missing == 0 || d.Missing > 3 {
		t.Errorf("%+v", d)
	}
	e.kill()
	f.until("loss", func() {}, func(d Details) bool { return d.State == Connecting })
	if _, err := f.Status(); err != ErrDisconnected {
		t.Errorf("status: %v", err)
	}
	f.stop()
	f.Forget()
	if f.cfg.Index.Len() != 0 {
		t.Errorf("%d blocks after Forget", f.cfg.Index.Len())
	}
}

// A replay that never ends is bounded, whatever it sends; a batch over the
// limit costs the connection and itself. Afterwards all is well.
func TestHostileEngine(t *testing.T) {
	var well atomic.Bool
	router, err := zmqsock.ListenRouter(t.Context(), zmqsock.RouterConfig{
		Endpoint: "tcp://127.0.0.1:0",
		Serve: func(ctx context.Context, request [][]byte, reply func(...[]byte) error) error {
			if well.Load() {
				return reply(nil, binary.BigEndian.AppendUint64(nil, endOfReplay), nil)
			}
			for { // never an end, and never what was asked for
				if err := reply(nil, []byte("short"), nil); err != nil {
					return err
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer router.Close()
	pub, err := zmqsock.Listen(t.Context(), zmqsock.PublisherConfig{Endpoint: "tcp://127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	n := uint64(5) // it ran before
	publish := func(payload []byte) {
		pub.Publish([][]byte{[]byte("kv"), binary.BigEndian.AppendUint64(nil, n), payload})
		n++
	}
	next := func() { publish(block(t, int(n))) }
	f := run(t, Config{Endpoint: pub.Endpoint(), Replay: router.Endpoint(), MaxPayload: 1 << 16})
	d := f.until("replay given up", next, func(d Details) bool { return d.Gaps == 1 && d.State == Following })
	if !d.Holed || d.Dropped[MalformedReplay] < maxMisshapen {
		t.Errorf("%+v", d)
	}
	well.Store(true)
	publish(make([]byte, 1<<17))
	f.until("loss", func() {}, func(d Details) bool { return d.State == Connecting })
	f.until("return", next, func(d Details) bool { return d.State == Following && d.LastSeq == n-1 })
}

// pyEngine is testdata/engine.py.
type pyEngine struct {
	t           *testing.T
	cmd         *exec.Cmd
	in          io.Writer
	pub, router string
	kill        func()
}

func startEngine(t *testing.T) *pyEngine {
	t.Helper()
	cmd := exec.Command(python(t), "testdata/engine.py")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatalf("python with pyzmq: %v", err)
	}
	e := &pyEngine{t: t, cmd: cmd, in: in}
	var once sync.Once
	e.kill = func() { once.Do(func() { cmd.Process.Kill(); cmd.Wait() }) }
	t.Cleanup(e.kill)
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("engine said nothing: %v", lines.Err())
	}
	if _, err := fmt.Sscanf(lines.Text(), "bound %s %s", &e.pub, &e.router); err != nil {
		t.Fatalf("engine said %q", lines.Text())
	}
	go io.Copy(io.Discard, out)
	return e
}

func (e *pyEngine) tell(format string, args ...any) {
	e.t.Helper()
	if _, err := fmt.Fprintln(e.in, strings.TrimSpace(fmt.Sprintf(format, args...))); err != nil {
		e.t.Fatal(err)
	}
}

// python finds the interpreter that has pyzmq.
func python(t *testing.T) string {
	t.Helper()
	if p := os.Getenv("MOORING_PYTHON"); p != "" {
		return p
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		p := filepath.Join(dir, ".tools/venv/bin/python")
		if _, err := os.Stat(p); err == nil {
			return p
		}
		if filepath.Dir(dir) == dir {
			return "/work/main/.tools/venv/bin/python"
		}
	}
}
