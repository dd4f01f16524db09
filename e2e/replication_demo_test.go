package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestReplicationDemo runs the demo as a person does: two replicas, a listener
// each, and every turn through the other one.
func TestReplicationDemo(t *testing.T) {
	program, err := plainBinary()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(program, "demo", "--once")
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	began := time.Now()
	err = cmd.Run()
	if took := time.Since(began); err != nil || took > 40*time.Second {
		t.Fatalf("%v after %v:\n%s", err, took, out.String())
	}
	for _, want := range []string{"two Mooring replicas", " a b a b ", "all 48 turns of 12 conversations stayed on their worker"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the demo does not say %q:\n%s", want, out.String())
		}
	}
}
