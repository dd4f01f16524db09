package reconcile

import (
	"os"
	"path/filepath"
	"testing"

	"mooring/kvstate"
)

func (w *lookedAt) link(target, topic, name string) {
	w.t.Helper()
	path := filepath.Join(w.root, topic, name)
	if err := os.Symlink(target, path+".tmp"); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		w.t.Fatal(err)
	}
}

// A volume that Kubernetes mounts: every file is a link through ..data, which is a
// link to the directory of one version.
func TestMountedVolume(t *testing.T) {
	w := newLookedAt(t)
	first, second := filepath.Join(kvstate.SourceTopic, "..1"), filepath.Join(kvstate.SourceTopic, "..2")
	w.mkdir(first)
	w.write(first, "7.json", encoded(t, sourceRecord(7)))
	w.link("..1", kvstate.SourceTopic, "..data")
	w.link("..data/7.json", kvstate.SourceTopic, "7.json")
	w.wants("all: +sources/7")

	w.mkdir(second) // the next version: 7 is copied, 8 is new
	w.write(second, "7.json", encoded(t, sourceRecord(7)))
	w.write(second, "8.json", encoded(t, sourceRecord(8)))
	w.link("..2", kvstate.SourceTopic, "..data")
	w.link("..data/8.json", kvstate.SourceTopic, "8.json")
	w.wants("+sources/8")

	// The target leaves first, then the link.
	w.remove(second, "7.json")
	w.wants("refused unreadable")
	w.wants("") // once
	w.remove(kvstate.SourceTopic, "7.json")
	w.wants("-sources/7")
}

func TestLinksToNoRecords(t *testing.T) {
	w := newLookedAt(t)
	w.mkdir(kvstate.SourceTopic)
	w.link("/dev/zero", kvstate.SourceTopic, "1.json")
	w.wants("refused not_a_file; all:")
	w.link("2.json", kvstate.SourceTopic, "2.json") // to itself
	w.wants("refused unreadable")
	w.wants("")
}

// What cannot be read is tried again, though its version stays the same. What was
// known of it stays known until it leaves.
func TestUnreadableFilesAreTriedAgain(t *testing.T) {
	w := newLookedAt(t)
	w.mkdir(kvstate.SourceTopic)
	path := filepath.Join(w.root, kvstate.SourceTopic, "7.json")
	topic := w.dir.topics[0]
	w.write(kvstate.SourceTopic, "7.json", encoded(t, sourceRecord(7)))
	topic.testingOnlyReadFile = func(string) ([]byte, error) { return nil, os.ErrPermission }
	w.wants("refused unreadable; all:")
	w.wants("") // told once
	topic.testingOnlyReadFile = nil
	w.wants("+sources/7")

	topic.testingOnlyReadFile = func(string) ([]byte, error) { return nil, os.ErrPermission }
	w.write(kvstate.SourceTopic, "7.json", encoded(t, sourceRecord(7)))
	w.wants("refused unreadable")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.wants("-sources/7")
}
