package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func problems(t *testing.T, err error) Problems {
	t.Helper()
	var ps Problems
	if !errors.As(err, &ps) {
		t.Fatalf("want Problems, got %v", err)
	}
	return ps
}

func TestHugeFileIsRefusedUnread(t *testing.T) {
	_, err := Parse("f.yaml", []byte(strings.Repeat("#", maxFile+1)))
	if got, want := err.Error(), "f.yaml: is larger than 16 MiB; a configuration is a few kilobytes"; got != want {
		t.Errorf("got %q", got)
	}
	// One byte less is looked at, which its first byte shows.
	_, err = Parse("f.yaml", []byte("\x00"+strings.Repeat("#", maxFile-1)))
	if ps := problems(t, err); ps[0].Line != 1 {
		t.Errorf("at the bound: %v", err)
	}
}

func TestBytesThatAreNotText(t *testing.T) {
	for _, text := range []string{"a\x00", "\xff\xfea\x00", "\xc0\x80", "\x1b[0m", "x: \u007f", "\ufeff\ufeff", "\uffff"} {
		_, err := Parse("f.yaml", []byte("# fine\n#\n"+text))
		if ps := problems(t, err); len(ps) != 1 || ps[0].Line != 3 || !strings.Contains(ps[0].Text, "save the file as UTF-8") {
			t.Errorf("%q: %v", text, ps)
		}
	}
	if _, err := Parse("f.yaml", []byte("# \t\u00e9\U0001f6a2\r\n")); err != nil {
		t.Error(err)
	}
}

// A few kilobytes of aliases mean hundreds of millions of values.
func TestAliasesAreBounded(t *testing.T) {
	var list strings.Builder
	list.WriteString("- {address: first:80, models: &m [")
	for i := range 1000 {
		fmt.Fprintf(&list, "m%d,", i)
	}
	list.WriteString("]}\n")
	for i := range 2500 {
		fmt.Fprintf(&list, "- {address: w%d:80, models: *m}\n", i)
	}
	_, err := ParseWorkers("w.yaml", []byte(list.String()))
	if ps := problems(t, err); len(ps) != 1 || !strings.HasSuffix(ps[0].Text, "aliases expanded; split the file or use fewer aliases") {
		t.Errorf("%d problems, the first: %v", len(ps), ps[0])
	}

	// Twenty levels of twenty aliases each.
	var bomb strings.Builder
	bomb.WriteString("- &a0 {ranks: 1}\n")
	for i := range 20 {
		fmt.Fprintf(&bomb, "- &a%d {<<: [%s]}\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 20), ","))
	}
	_, err = ParseWorkers("w.yaml", []byte(bomb.String()))
	problems(t, err)
}

func TestCyclesEnd(t *testing.T) {
	for _, text := range []string{
		"workers: {static: &a [*a, *a]}", "session: &a {headers: *a, <<: *a}", "&a {<<: [*a, *a], session: *a, ? *a : 1}",
		"workers: {static: [&a {address: *a, models: [*a], <<: *a}]}",
	} {
		_, err := Parse("f.yaml", []byte(text))
		problems(t, err)
	}
}

func TestListsAreBounded(t *testing.T) {
	for want, text := range map[string]string{
		"has 65537 workers; at most 65536 are allowed": strings.Repeat("- {}\n", 65537),
		"has 1025 entries; at most 1024 are allowed":   "- {address: 10.0.0.1:80, models: [" + strings.Repeat("m,", 1025) + "]}",
		"has 257 bytes; at most 256 are allowed":       "- {address: 10.0.0.1:80, models: [" + strings.Repeat("m", 257) + "]}",
	} {
		_, err := ParseWorkers("w.yaml", []byte(text))
		if ps := problems(t, err); len(ps) != 1 || !strings.HasSuffix(ps[0].Text, want) {
			t.Errorf("want %s, got %d: %v", want, len(ps), ps[0])
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	_, err := ParseWorkers("w.yaml", []byte(strings.Repeat("- {}\n", 1500)))
	ps := problems(t, err)
	if last := ps[len(ps)-1]; len(ps) != maxProblems+1 || last.String() != "w.yaml: has 500 more problems; mend these first" {
		t.Errorf("%d problems, the last: %s", len(ps), last)
	}
}
