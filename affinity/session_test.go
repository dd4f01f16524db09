package affinity

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestSessionID(t *testing.T) {
	long := strings.Repeat("a", MaxSessionBytes)
	tests := []struct {
		name    string
		values  []string
		want    string
		refused bool
	}{
		{name: "no header"},
		{name: "empty", values: []string{""}},
		{name: "only spaces", values: []string{"   "}},
		{name: "only a tab", values: []string{"\t"}},
		{name: "only blank values", values: []string{"", " \t ", "\t"}},
		{name: "plain", values: []string{"s1"}, want: "s1"},
		{name: "one character", values: []string{"0"}, want: "0"},
		{name: "case counts", values: []string{"S1"}, want: "S1"},
		{name: "padded", values: []string{" \ts1\t "}, want: "s1"},
		{name: "blanks inside stay", values: []string{"a b\tc"}, want: "a b\tc"},
		{name: "other white space stays", values: []string{"\u00a0s1\n"}, want: "\u00a0s1\n"},
		{name: "first of two", values: []string{"s1", "s2"}, want: "s1"},
		{name: "first of two, the other way round", values: []string{"s2", "s1"}, want: "s2"},
		{name: "first that is not blank", values: []string{" ", "s2", "s1"}, want: "s2"},
		{name: "a joined list is one id", values: []string{"s1,s2"}, want: "s1,s2"},
		{name: "256 bytes", values: []string{long}, want: long},
		{name: "256 bytes and padding", values: []string{" " + long + " "}, want: long},
		{name: "257 bytes", values: []string{long + "a"}, refused: true},
		{name: "256 bytes of two-byte letters", values: []string{strings.Repeat("ü", 128)}, want: strings.Repeat("ü", 128)},
		{name: "257 bytes of two-byte letters", values: []string{strings.Repeat("ü", 128) + "a"}, refused: true},
		{name: "16 KiB", values: []string{strings.Repeat("x", 16<<10)}, refused: true},
		{name: "too long is not skipped", values: []string{long + "a", "s2"}, refused: true},
		{name: "what follows does not matter", values: []string{"s1", long + "a", "\xff"}, want: "s1"},
		{name: "not UTF-8", values: []string{"\xff\xfea"}, refused: true},
		{name: "half a character", values: []string{"a\xe4\xbc"}, refused: true},
		{name: "four-byte character", values: []string{"🙂"}, want: "🙂"},
		{name: "NUL is opaque", values: []string{"a\x00b"}, want: "a\x00b"},
		{name: "replacement character", values: []string{"\ufffd"}, want: "\ufffd"},
		{name: "like a group key", values: []string{GroupKey("parent")}, refused: true},
		{name: "like a group key, padded", values: []string{" \x01sg:x"}, refused: true},
		{name: "group prefix without its first byte", values: []string{"sg:abc"}, want: "sg:abc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := SessionID(tt.values)
			if got != tt.want || (err != nil) != tt.refused {
				t.Errorf("got %q, %v; want %q, refused %v", got, err, tt.want, tt.refused)
			}
			if err != nil && !errors.Is(err, ErrInvalidSession) {
				t.Errorf("%v is not ErrInvalidSession", err)
			}
		})
	}
}

func TestTableRefusesWhatNoSessionCanBe(t *testing.T) {
	table, _ := newTestTable(t, Config{})
	for _, id := range []string{"", strings.Repeat("a", MaxSessionBytes+1), "\xff"} {
		if _, err := table.Acquire(t.Context(), id, target(t, "")); !errors.Is(err, ErrInvalidSession) {
			t.Errorf("Acquire(%.10q) = %v", id, err)
		}
		if _, err := table.Pin(id, target(t, "1")); !errors.Is(err, ErrInvalidSession) {
			t.Errorf("Pin(%.10q) = %v", id, err)
		}
		if _, _, err := table.Query(id, target(t, "")); !errors.Is(err, ErrInvalidSession) {
			t.Errorf("Query(%.10q) = %v", id, err)
		}
		if table.Unpin(id) {
			t.Errorf("Unpin(%.10q) = true", id)
		}
	}
	if n := table.entries.Load(); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}

func TestGroupKeyMatchesTheVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/subagent_group_affinity_id.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Parent string `json:"parent_session_id"`
		Key    string `json:"affinity_id"`
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		got := GroupKey(v.Parent)
		if got != v.Key {
			t.Errorf("GroupKey(%.20q) = %q, want %q", v.Parent, got, v.Key)
		}
		if len(got) != 68 || checkSession(got) != nil {
			t.Errorf("GroupKey(%.20q) is %d bytes: %v", v.Parent, len(got), checkSession(got))
		}
	}
}

func TestSiblingsShareABindingAndTheirParentDoesNot(t *testing.T) {
	table, _ := newTestTable(t, Config{})
	first := bindTo(t, table, GroupKey("root"), target(t, "2:1"))
	isBoundTo(t, acquired(t, table, GroupKey("root")), target(t, "2:1"))
	if _, bound := acquired(t, table, "root").Target(); bound {
		t.Error("the parent is bound")
	}
	if GroupKey("root") == GroupKey("other") {
		t.Error("two parents share a key")
	}
	first.Release(Completed)
}

func TestHashSessionIsShortHexAndKeepsTheIdSecret(t *testing.T) {
	got := HashSession("root-session")
	if want := "43f3d904c6e74613"; got != want { // the beginning of facts/dynamo-affinity.md 3.6's vector
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzSessionID(f *testing.F) {
	for _, s := range []string{"", " a ", "\x01sg:", "\xff", strings.Repeat("ü", 129)} {
		f.Add(s, "b")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		id, err := SessionID([]string{first, second})
		if err != nil {
			if id != "" || !errors.Is(err, ErrInvalidSession) {
				t.Errorf("refused with %q, %v", id, err)
			}
			return
		}
		if again, err := SessionID([]string{id}); again != id || err != nil {
			t.Errorf("%q becomes %q, %v when read again", id, again, err)
		}
		if id != "" && checkSession(id) != nil {
			t.Errorf("no table would take %q", id)
		}
	})
}
