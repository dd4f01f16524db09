package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is one running extproc command whose log is JSON lines on stderr.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended

	mu    sync.Mutex
	lines []map[string]any
	news  chan struct{} // closed and replaced at each line
}

// run starts the binary and stops it when the test ends. If the test fails its
// log is shown. A data race in the process fails the test.
func run(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return runWith(t, nil, name, args...)
}

// runWith is run with more environment variables, "NAME=value".
func runWith(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	return runCommand(t, binary, env, name, args...)
}

// runCommand is runWith for another program.
func runCommand(t *testing.T, program string, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(program, args...), done: make(chan struct{}), news: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go p.read(stderr)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", p.name, p.log())
		}
		if strings.Contains(p.log(), "DATA RACE") {
			t.Errorf("%s has a data race:\n%s", p.name, p.log())
		}
	})
	return p
}

func (p *process) read(stderr io.Reader) {
	scanner := bufio.NewScanner(stderr)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := make(map[string]any)
		if json.Unmarshal(scanner.Bytes(), &line) != nil {
			line["raw"] = scanner.Text()
		}
		p.mu.Lock()
		p.lines = append(p.lines, line)
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
	}
	p.cmd.Wait()
	close(p.done)
}

// waitLog returns the first log line with the given message.
func (p *process) waitLog(msg string) map[string]any {
	p.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		p.mu.Lock()
		for _, line := range p.lines {
			if line["msg"] == msg {
				p.mu.Unlock()
				return line
			}
		}
		news := p.news
		p.mu.Unlock()
		select {
		case <-news:
		case <-p.done:
			p.t.Fatalf("%s ended without logging %q:\n%s", p.name, msg, p.log())
		case <-deadline:
			p.t.Fatalf("%s did not log %q in 20 s:\n%s", p.name, msg, p.log())
		}
	}
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, line := range p.lines {
		if raw, ok := line["raw"]; ok {
			b.WriteString(raw.(string))
		} else {
			text, _ := json.Marshal(line)
			b.Write(text)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// signal sends sig. After SIGSTOP it returns when the process has stopped: until
// then it may go on, some of its threads longer than others.
func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("signal %s: %v", p.name, err)
	}
	if sig == syscall.SIGSTOP {
		eventually(p.t, 10*time.Second, p.name+" has stopped", p.stopped)
	}
}

// stopped reports whether every thread of the process is stopped.
func (p *process) stopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended meanwhile
		}
		// The state stands behind the name, which is in parentheses.
		if _, after, ok := bytes.Cut(stat, []byte(") ")); !ok || after[0] != 'T' {
			return false
		}
	}
	return true
}

// waitExit waits for the process to end by itself and returns its exit code.
func (p *process) waitExit(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		p.t.Fatalf("%s still runs after %v:\n%s", p.name, limit, p.log())
		return -1
	}
}

// eventually polls until ok is true: for what a real process shows by no event.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
