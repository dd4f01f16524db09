package config

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
)

// FuzzParse feeds both readers. Neither may panic; an error is Problems in one
// line each; and what is accepted is accepted again after going through its own
// canonical spelling.
func FuzzParse(f *testing.F) {
	documented, err := os.ReadFile("testdata/documented.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(documented))
	f.Add(everyKey)
	for _, script := range []string{"addresses", "keys", "remarks", "syntax", "values", "workers"} {
		datadriven.RunTestAny(f, "testdata/scripts/"+script, func(_ testing.TB, d *datadriven.TestData) string {
			f.Add(d.Input)
			return d.Expected
		})
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("f.yaml", []byte(text))
		checkProblems(t, err, text)
		if err == nil {
			checkAgain(t, c.Workers.Static)
			c.Remarks()
			if keys := NeedRestart(c, mustParse(t, text)); len(keys) != 0 {
				t.Errorf("the same text differs in %v", keys)
			}
		}
		workers, err := ParseWorkers("w.yaml", []byte(text))
		checkProblems(t, err, text)
		checkAgain(t, workers)
	})
}

// checkProblems checks the form of a refusal.
func checkProblems(t *testing.T, err error, text string) {
	if err == nil {
		return
	}
	lines := 2 // one more than there can be: where an open quote was missed
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		lines += strings.Count(text, end)
	}
	var ps Problems
	if !errors.As(err, &ps) || len(ps) == 0 {
		t.Fatalf("not Problems: %v", err)
	}
	for i, p := range ps {
		if strings.ContainsAny(p.String(), "\n\r\x00") || p.Text == "" {
			t.Errorf("message of more than one line: %q", p.String())
		}
		if p.Line < 0 || p.Line > lines || i > 0 && p.Line != 0 && p.Line < ps[i-1].Line {
			t.Errorf("line %d of %d, after line %d: %s", p.Line, lines, ps[max(0, i-1)].Line, p)
		}
	}
}

// checkAgain writes the workers as a file of the canonical spellings, which
// must mean the same.
func checkAgain(t *testing.T, workers []WorkerSpec) {
	var b strings.Builder
	list := func(names []string) string {
		quoted := make([]string, len(names))
		for i, n := range names {
			quoted[i] = yamlQuote(n)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	for _, w := range workers {
		b.WriteString("- {address: " + yamlQuote(w.Address) + ", models: " + list(w.Models) + ", adapters: " + list(w.Adapters) +
			", routing_group: " + yamlQuote(w.RoutingGroup) + ", ranks: " + strconv.Itoa(int(w.Ranks)) + ", id: " + w.ID.String() +
			", drain: " + strconv.FormatBool(w.Drain) + ", kv_events: " + yamlQuote(w.KVEvents) + ", kv_replay: " + yamlQuote(w.KVReplay) +
			", block_size: " + strconv.Itoa(w.BlockSize) + "}\n")
	}
	again, err := ParseWorkers("again.yaml", []byte(b.String()))
	if err != nil {
		t.Fatalf("%v\nof\n%s", err, b.String())
	}
	if diff := cmp.Diff(workers, again); diff != "" { // by WorkerSpec.Equal
		t.Errorf("the canonical spelling means something else:\n%s", diff)
	}
}

// yamlQuote writes text between single quotes, which know no escapes but
// themselves.
func yamlQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
