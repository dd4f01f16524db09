package main

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"extproc": main})
}

// TestScripts runs the command as a user does: testdata/script/*.txt.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"waitfor": waitFor,
		},
	})
}

// exits CODE COMMAND...: runs a command of the binary and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	code := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit interface{ ExitCode() int }
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = string(rune('0' + exit.ExitCode()))
	}
	if code != args[0] {
		ts.Fatalf("%q exited with %s, want %s", args[1:], code, args[0])
	}
}

// waitfor FILE TEXT: waits until a file, written by a command in the background,
// holds a text.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitfor FILE TEXT")
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		content, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && bytes.Contains(content, []byte(args[1])) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no %q in %s after 20 s; it holds:\n%s", args[1], args[0], content)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
