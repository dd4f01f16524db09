package simworker

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kvServing is a worker that publishes, and a libzmq process that listens to
// one of its ranks.
type kvServing struct {
	*serving
	at   Endpoints
	http *http.Client
	in   io.Writer
	live chan kvMessage
	back chan kvMessage
}

// kvMessage is a message as libzmq got it.
type kvMessage [][]byte

func servePublished(t *testing.T, cfg Config, rank int) *kvServing {
	t.Helper()
	ready := make(chan Endpoints, 1)
	cfg.Ready = func(e Endpoints) { ready <- e }
	cfg.Events.Endpoint, cfg.Events.Replay = "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"
	s := &kvServing{serving: serve(t, cfg), http: client(t, 1), live: make(chan kvMessage, 1<<12), back: make(chan kvMessage, 1<<12)}
	s.at = <-ready
	s.startPeer(t, portPlus(t, s.at.KVEvents, rank), portPlus(t, s.at.KVReplay, rank))
	t.Cleanup(func() {
		s.stop()
		if err := <-s.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	// A subscription needs a moment to arrive, and nothing says when it has.
	for joined := false; !joined; {
		s.post(t, "/reset_prefix_cache", "")
		select {
		case <-s.live:
			joined = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	return s
}

func portPlus(t *testing.T, endpoint string, n int) string {
	host, port, err := splitEndpoint(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("tcp://%s:%d", host, port+n)
}

func (s *kvServing) startPeer(t *testing.T, events, replay string) {
	t.Helper()
	cmd := exec.Command(python(t), "testdata/kvpeer.py", events, replay)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("python with pyzmq: %v", err)
	}
	s.in = in
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			words := strings.Fields(lines.Text())
			var m kvMessage
			for _, w := range words[1:] {
				frame, _ := hex.DecodeString(strings.TrimPrefix(w, "-"))
				m = append(m, frame)
			}
			if words[0] == "live" {
				s.live <- m
			} else {
				s.back <- m
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-read
		cmd.Wait()
	})
}

// python finds the interpreter that has pyzmq.
func python(t *testing.T) string {
	t.Helper()
	if p := os.Getenv("MOORING_PYTHON"); p != "" {
		return p
	}
	for _, p := range []string{"../../.tools/venv/bin/python", "/work/main/.tools/venv/bin/python"} {
		if _, err := os.Stat(p); err == nil {
			p, err := filepath.Abs(p)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	t.Fatal("no python with pyzmq: set MOORING_PYTHON or run make test")
	return ""
}

func (s *kvServing) post(t *testing.T, path, body string, headers ...string) string {
	t.Helper()
	r, err := http.NewRequest("POST", s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer := readAll(t, resp.Body)
	if resp.StatusCode/100 != 2 {
		t.Fatalf("%s: %d %s", path, resp.StatusCode, answer)
	}
	return answer
}

func get(t *testing.T, from chan kvMessage, what string) kvMessage {
	t.Helper()
	select {
	case m := <-from:
		return m
	case <-time.After(20 * time.Second):
		t.Fatalf("no %s", what)
	}
	return nil
}

// replay asks for batches and reads up to the end marker, which it checks.
func (s *kvServing) replay(t *testing.T, from uint64, frames int) []kvMessage {
	t.Helper()
	fmt.Fprintln(s.in, from)
	var out []kvMessage
	for {
		m := get(t, s.back, "replayed message")
		if len(m) != frames || len(m[0]) != 0 || len(m[frames-2]) != 8 {
			t.Fatalf("replayed frames %x", m)
		}
		if binary.BigEndian.Uint64(m[frames-2]) == 1<<64-1 {
			if len(m[frames-1]) != 0 {
				t.Errorf("the end marker has a payload: %x", m)
			}
			return out
		}
		out = append(out, m)
	}
}

// replayAll asks for everything until what the engine has done is in it:
// batches are published behind its back.
func (s *kvServing) replayAll(t *testing.T, rank, frames int) []kvMessage {
	t.Helper()
	e := s.worker.engine
	e.mu.Lock()
	want := e.ranks[rank].journal.seq
	e.mu.Unlock()
	for {
		if all := s.replay(t, 0, frames); uint64(len(all)) >= want {
			return all
		}
	}
}
