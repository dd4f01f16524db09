package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runCheck writes the files into a directory and checks mooring.yaml there. The
// directory is cut from what is returned.
func runCheck(t *testing.T, files map[string]string) (out, errOut string, err error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr strings.Builder
	cmd := checkCommand()
	cmd.SetArgs([]string{"--config", filepath.Join(dir, "mooring.yaml")})
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	return strings.ReplaceAll(stdout.String(), dir+"/", ""), strings.ReplaceAll(stderr.String(), dir+"/", ""), err
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		files       map[string]string
		out, errOut string
	}{
		"empty": {
			files: map[string]string{"mooring.yaml": ""},
			out:   "mooring.yaml: fine\n",
		},
		"without effect": {
			files: map[string]string{
				"mooring.yaml": "workers:\n  file: w.yaml\nreplication: {listen: \"\", peers: [\"tcp://10.0.0.2:9092\"]}\n",
				"w.yaml":       "- {address: a:1}\n- {address: b:1, kv_events: tcp://b:2}\n",
			},
			out: "mooring.yaml: fine\n" +
				"mooring.yaml:3: replication.peers: have no effect without replication.listen\n",
		},
		"records that are yet to come": {
			files: map[string]string{"mooring.yaml": "kvstate:\n  records_dir: records\n"},
			out: "mooring.yaml: fine\n" +
				"mooring.yaml:2: kvstate.records_dir: records is not there yet; its records count once it is\n",
		},
		// Five mistakes, five lines.
		"mistakes": {
			files: map[string]string{"mooring.yaml": "listen:\n  admin: 9090\nsession:\n  ttl: 30\n  mode: firm\nenvoy:\n  body_mode: all\n\nworker: {}\n"},
			errOut: "mooring.yaml:2: listen.admin: \"9090\" is no address; write host:port, as in 127.0.0.1:9090\n" +
				"mooring.yaml:4: session.ttl: is \"30\" without a unit; it takes a duration from 1s to 8760h, as in 30s\n" +
				"mooring.yaml:5: session.mode: is \"firm\"; it takes one of hard, soft\n" +
				"mooring.yaml:7: envoy.body_mode: is \"all\"; it takes one of full_duplex, none, buffered\n" +
				"mooring.yaml:9: worker: is no key; did you mean workers?\n",
		},
		"bad workers file": {
			files: map[string]string{
				"mooring.yaml": "workers: {file: w.yaml}\n",
				"w.yaml":       "- {address: a}\n- {adress: b:1}\n",
			},
			errOut: "w.yaml:1: [0].address: \"a\" is no address; write host:port, as in 10.0.0.7:8000\n" +
				"w.yaml:2: [1].adress: is no key; did you mean address?\n",
		},
		"one worker in both lists": {
			files: map[string]string{
				"mooring.yaml": "workers:\n  file: w.yaml\n  static:\n    - {address: a:1}\n",
				"w.yaml":       "- {address: a:1}\n",
			},
			errOut: "w.yaml:1: worker a:1 is listed already at mooring.yaml:4; list each address once\n",
		},
		"no workers file": {
			files:  map[string]string{"mooring.yaml": "workers: {file: w.yaml}\n"},
			errOut: "mooring.yaml:1: workers.file: cannot be read: stat w.yaml: no such file or directory\n",
		},
		"no file": {
			errOut: "read configuration: open mooring.yaml: no such file or directory\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := runCheck(t, c.files)
			if out != c.out || errOut != c.errOut {
				t.Errorf("stdout:\n%sstderr:\n%s", out, errOut)
			}
			if (err == nil) != (c.errOut == "") || err != nil && !errors.Is(err, errCheckFailed) {
				t.Errorf("error: %v", err)
			}
		})
	}
}

func TestCheckHelpShowsWhatCheckSays(t *testing.T) {
	_, errOut, _ := runCheck(t, map[string]string{"mooring.yaml": "\n\n\nsession: {ttl: 30}\n\n\n\n\nworker: []\n"}) // the error is what errOut says
	help := checkCommand().Example
	for line := range strings.Lines(errOut) {
		if !strings.Contains(help+"\n", line) {
			t.Errorf("the help has no %q", line)
		}
	}
	if strings.Count(errOut, "\n") != strings.Count(help, "\n") {
		t.Errorf("help:\n%s\nsaid:\n%s", help, errOut)
	}
}
