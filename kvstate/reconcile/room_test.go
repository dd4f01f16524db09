package reconcile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"mooring/kvstate"
)

// narrow makes room for so few sources.
func (w *lookedAt) narrow(records, files int) *topicDir {
	t := w.dir.topics[0]
	t.mostRecords, t.mostFiles = records, files
	return t
}

// heardOf looks at what events named.
func (w *lookedAt) heardOf(names ...string) string {
	heard := hearsay{names: make(map[place]bool)}
	for _, name := range names {
		heard.names[place{kvstate.SourceTopic, name}] = true
	}
	w.dir.look(heard, w.tell)
	return w.said()
}

func TestDefaultRoom(t *testing.T) {
	for _, topic := range newLookedAt(t).dir.topics {
		if topic.mostRecords != 32768 || topic.mostFiles != 65536 {
			t.Errorf("%s: room for %d records and %d files", topic.name, topic.mostRecords, topic.mostFiles)
		}
	}
}

// A record for which there is no room is taken as soon as there is.
func TestRecordsWaitForRoom(t *testing.T) {
	w := newLookedAt(t)
	topic := w.narrow(2, 10)
	w.mkdir(kvstate.SourceTopic)
	for i := range uint64(2) {
		w.write(kvstate.SourceTopic, fmt.Sprintf("%d.json", i+1), encoded(t, sourceRecord(i+1)))
	}
	w.wants("all: +sources/1 +sources/2")
	w.write(kvstate.SourceTopic, "3.json", encoded(t, sourceRecord(3)))
	w.write(kvstate.SourceTopic, "4.json", encoded(t, sourceRecord(4)))
	w.wants("refused too_many") // once for the topic
	w.wants("")
	if got := w.heardOf("3.json", "4.json"); got != "" {
		t.Errorf("told again: %q", got)
	}
	if len(topic.looked) != 2 || len(topic.records) != 2 {
		t.Errorf("%d files and %d records are remembered, want 2", len(topic.looked), len(topic.records))
	}
	if got := w.heardOf("1.json"); got != "" { // which does not know that others still wait
		t.Errorf("told %q", got)
	}
	w.wants("")
	w.remove(kvstate.SourceTopic, "1.json")
	w.remove(kvstate.SourceTopic, "2.json")
	w.wants("-sources/1 -sources/2")
	w.wants("+sources/3 +sources/4")
	w.write(kvstate.SourceTopic, "5.json", encoded(t, sourceRecord(5)))
	w.wants("refused too_many") // it begins again
}

// Files that are no records take room as well, and give it back when they leave.
func TestFilesAreRememberedInBounds(t *testing.T) {
	w := newLookedAt(t)
	topic := w.narrow(10, 4)
	w.mkdir(kvstate.SourceTopic)
	w.wants("all:")
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprintf("%d.json", i+1))
		w.write(kvstate.SourceTopic, names[i], "") // never whole
	}
	if got := w.heardOf(names...); got != "refused too_many" {
		t.Errorf("told %q", got)
	}
	if len(topic.looked) != 4 {
		t.Errorf("%d files are remembered, want 4", len(topic.looked))
	}
	w.write(kvstate.SourceTopic, "9.json", encoded(t, sourceRecord(9)))
	w.wants("")
	if len(topic.looked) != 4 {
		t.Errorf("%d files are remembered, want 4", len(topic.looked))
	}
	for _, name := range names {
		w.remove(kvstate.SourceTopic, name)
	}
	if got := w.heardOf(names...); got != "" { // none was a record, and none is left
		t.Errorf("told %q", got)
	}
	w.wants("+sources/9")
}

// Of many names no more are listed than may be remembered.
func TestNamesAreListedInBounds(t *testing.T) {
	w := newLookedAt(t)
	topic := w.narrow(4, 4)
	w.manyRecords(10)
	names, more, err := topic.list(filepath.Join(w.root, kvstate.SourceTopic))
	if len(names) != 4 || !more || err != nil {
		t.Errorf("%d names are listed, more %v, %v; want 4 and more", len(names), more, err)
	}
	w.manyOthers(2000) // over 16 for each file that may be remembered
	for i := range 10 {
		w.remove(kvstate.SourceTopic, fmt.Sprintf("%d.json", i+1))
	}
	w.wants("refused too_many; all:")
}

// However much else is there, records that no event names are found.
func TestOtherFilesTakeNoRoom(t *testing.T) {
	w := newLookedAt(t)
	w.narrow(200, 200)
	w.mkdir(kvstate.SourceTopic)
	w.manyOthers(2000)
	w.write(kvstate.SourceTopic, "7.json", encoded(t, sourceRecord(7)))
	w.wants("all: +sources/7")
	w.write(kvstate.SourceTopic, "8.json", encoded(t, sourceRecord(8)))
	w.wants("+sources/8")
}

// manyOthers writes n files that are no records.
func (w *lookedAt) manyOthers(n int) {
	w.t.Helper()
	for i := range n {
		if err := os.WriteFile(filepath.Join(w.root, kvstate.SourceTopic, fmt.Sprintf("%d.json.tmp", i)), nil, 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}
