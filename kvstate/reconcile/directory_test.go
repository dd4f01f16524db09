package reconcile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"mooring/kvstate"
)

func TestRecordsComeAndGo(t *testing.T) {
	w := newLookedAt(t)
	w.mkdir(kvstate.SourceTopic)
	w.write(kvstate.SourceTopic, "7.json", encoded(t, sourceRecord(7)))
	w.wants("all: +sources/7")
	w.wants("")
	w.mkdir(kvstate.AttachmentTopic) // the first attachment makes the directory
	a := attachmentRecord(7, 1)
	name := fmt.Sprintf("%d.json", kvstate.AttachmentRecordID(7, 1))
	w.write(kvstate.AttachmentTopic, name, encoded(t, a))
	w.wants(fmt.Sprintf("+attachments/%d", kvstate.AttachmentRecordID(7, 1)))
	w.remove(kvstate.SourceTopic, "7.json")
	w.remove(kvstate.AttachmentTopic, name)
	w.wants(fmt.Sprintf("-attachments/%d -sources/7", kvstate.AttachmentRecordID(7, 1)))
}

func TestHalfWrittenRecordsWaitUntilWhole(t *testing.T) {
	w := newLookedAt(t)
	w.mkdir(kvstate.SourceTopic)
	w.wants("all:")
	text := encoded(t, sourceRecord(7))
	for _, part := range []string{"", text[:1], text[:len(text)/2], text[:len(text)-1]} {
		if err := os.WriteFile(filepath.Join(w.root, kvstate.SourceTopic, "7.json"), []byte(part), 0o644); err != nil {
			t.Fatal(err)
		}
		w.wants("")
	}
	if err := os.WriteFile(filepath.Join(w.root, kvstate.SourceTopic, "7.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	w.wants("+sources/7")
}

func TestRecordsAreImmutable(t *testing.T) {
	w := newLookedAt(t)
	w.mkdir(kvstate.SourceTopic)
	first := sourceRecord(7)
	w.write(kvstate.SourceTopic, "7.json", encoded(t, first))
	w.wants("all: +sources/7")
	w.write(kvstate.SourceTopic, "7.json", "\n"+encoded(t, first)) // the same payload again
	w.wants("")
	other := first
	other.GlobalDPRank = 3
	w.write(kvstate.SourceTopic, "7.json", encoded(t, other))
	w.wants("refused changed")
	w.wants("") // told once
	if got := w.dir.topics[0].records[7]; got != any(first) {
		t.Errorf("kept %+v, want the first", got)
	}
	w.remove(kvstate.SourceTopic, "7.json")
	w.wants("-sources/7")
	w.write(kvstate.SourceTopic, "7.json", encoded(t, other)) // a new record
	w.wants("+sources/7")
}

func TestBadRecordsAreRefusedOnceEach(t *testing.T) {
	otherDomain := sourceRecord(7)
	otherDomain.IndexerDomainID.RoutingScope.Digest[0]++
	framework := sourceRecord(7)
	framework.IngressProtocol = kvstate.FrameworkV1
	blockless := sourceRecord(7)
	blockless.KVBlockSize = 0
	tests := []struct{ topic, name, text, want string }{
		{kvstate.SourceTopic, "8.json", encoded(t, sourceRecord(7)), "refused wrong_id"},
		{kvstate.SourceTopic, "7.json", encoded(t, otherDomain), "refused wrong_domain"},
		{kvstate.SourceTopic, "7.json", encoded(t, framework), "refused wrong_protocol"},
		{kvstate.SourceTopic, "7.json", encoded(t, blockless), "refused no_block_size"},
		{kvstate.SourceTopic, "7.json", "null and void", "refused malformed"},
		{kvstate.SourceTopic, "7.json", "[1,2]", "refused malformed"},
		{kvstate.SourceTopic, "7.json", `{"protocol_version":"v3"}`, "refused malformed"},
		{kvstate.SourceTopic, "7.json", strings.Repeat(" ", maxRecordBytes+1), "refused too_large"},
		{kvstate.SourceTopic, "seven.json", "{", ""},
		{kvstate.SourceTopic, "007.json", "{}", ""},
		{kvstate.SourceTopic, ".7.json.swp", "{}", ""},
		{kvstate.AttachmentTopic, "7.json", encoded(t, attachmentRecord(7, 1)), "refused wrong_id"},
		{kvstate.AttachmentTopic, fmt.Sprintf("%d.json", kvstate.AttachmentRecordID(7, 2)), encoded(t, attachmentRecord(7, 1)), "refused wrong_id"},
	}
	for _, tt := range tests {
		w := newLookedAt(t)
		w.mkdir(kvstate.SourceTopic, kvstate.AttachmentTopic)
		w.wants("all:")
		w.write(tt.topic, tt.name, tt.text)
		if got := w.look(); got != tt.want {
			t.Errorf("%s/%s: told %q, want %q", tt.topic, tt.name, got, tt.want)
		}
		w.wants("")
	}
}

func TestPipesAndDirectoriesAreNoRecords(t *testing.T) {
	w := newLookedAt(t)
	w.mkdir(kvstate.SourceTopic, filepath.Join(kvstate.SourceTopic, "8.json"))
	if err := syscall.Mkfifo(filepath.Join(w.root, kvstate.SourceTopic, "7.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.wants("refused not_a_file; refused not_a_file; all:")
}

func TestDirectoryThatLeavesIsUncertain(t *testing.T) {
	w := newLookedAt(t)
	w.wants("lost") // not there yet
	w.wants("")     // told once
	w.mkdir(kvstate.SourceTopic, kvstate.AttachmentTopic)
	w.wants("all:")
	w.write(kvstate.SourceTopic, "7.json", encoded(t, sourceRecord(7)))
	w.write(kvstate.SourceTopic, "8.json", encoded(t, sourceRecord(8)))
	w.wants("+sources/7 +sources/8")

	w.rename(w.root, w.root+"-away")
	w.wants("lost")
	w.rename(w.root+"-away", w.root)
	w.remove(kvstate.SourceTopic, "8.json") // meanwhile
	w.wants("all: +sources/7")

	topic := filepath.Join(w.root, kvstate.SourceTopic)
	w.rename(topic, topic+"-away")
	w.wants("lost")
	w.rename(w.root, w.root+"-away") // and then all of it
	w.wants("")
	w.mkdir() // back, but the topic it had is not: a volume that is being mounted
	w.wants("")
	w.mkdir(kvstate.SourceTopic, kvstate.AttachmentTopic)
	w.wants("all:")
}

// A directory that was away can return as another one, whose records have nothing
// to do with those of the first.
func TestDirectoryThatReturnsReplacesItsRecords(t *testing.T) {
	w := newLookedAt(t)
	w.mkdir(kvstate.SourceTopic, kvstate.AttachmentTopic)
	for i := range uint64(4) {
		w.write(kvstate.SourceTopic, fmt.Sprintf("%d.json", i+1), encoded(t, sourceRecord(i+1)))
	}
	w.wants("all: +sources/1 +sources/2 +sources/3 +sources/4")
	w.rename(w.root, w.root+"-away")
	w.wants("lost")
	w.mkdir(kvstate.SourceTopic, kvstate.AttachmentTopic)
	other := sourceRecord(1)
	other.CacheOwnerID = testOwner(9)
	w.write(kvstate.SourceTopic, "1.json", encoded(t, other))
	w.write(kvstate.SourceTopic, "2.json", encoded(t, sourceRecord(2))) // the same
	w.write(kvstate.SourceTopic, "3.json", "no record")
	w.wants("refused malformed; all: +sources/1 +sources/2")
	if got := w.dir.topics[0].records[1]; got != any(other) {
		t.Errorf("believed %+v, want that of the directory that is there", got)
	}
	w.write(kvstate.SourceTopic, "1.json", encoded(t, sourceRecord(1)))
	w.wants("refused changed") // from now on its records do not change
}

// What is uncertain because one topic is away may be replaced there alone.
func TestTopicThatStaysKeepsItsRecords(t *testing.T) {
	w := newLookedAt(t)
	w.mkdir(kvstate.SourceTopic, kvstate.AttachmentTopic)
	w.write(kvstate.SourceTopic, "1.json", encoded(t, sourceRecord(1)))
	w.wants("all: +sources/1")
	attachments := filepath.Join(w.root, kvstate.AttachmentTopic)
	w.rename(attachments, attachments+"-away")
	w.wants("lost")
	w.rename(attachments+"-away", attachments)
	other := sourceRecord(1)
	other.GlobalDPRank = 3
	w.write(kvstate.SourceTopic, "1.json", encoded(t, other))
	w.wants("refused changed; all: +sources/1")
}

// What has left is named, in one line, and once: not by each topic.
func TestUncertaintyNamesWhatHasLeft(t *testing.T) {
	w := newLookedAt(t)
	lost := func() (why string) {
		w.dir.look(hearsay{all: true}, func(u update) {
			if u.lost != nil {
				why = u.lost.Error()
			}
		})
		return why
	}
	sources, attachments := filepath.Join(w.root, kvstate.SourceTopic), filepath.Join(w.root, kvstate.AttachmentTopic)
	missing := func(path string) string { return "stat " + path + ": no such file or directory" }
	if got := lost(); got != missing(w.root) {
		t.Errorf("never there: %q", got)
	}
	w.mkdir(kvstate.SourceTopic, kvstate.AttachmentTopic)
	w.wants("all:")
	w.rename(w.root, w.root+"-away")
	if got := lost(); got != missing(w.root) {
		t.Errorf("left: %q", got)
	}
	w.rename(w.root+"-away", w.root)
	w.wants("all:")
	w.rename(sources, sources+"-away")
	w.rename(attachments, attachments+"-away")
	if got, want := lost(), missing(sources)+"; "+missing(attachments); got != want {
		t.Errorf("both topics left: %q, want %q", got, want)
	}
}

func TestChangesAreHeardWithoutRescan(t *testing.T) {
	w := newLookedAt(t)
	w.mkdir(kvstate.SourceTopic)
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan string)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.dir.run(ctx, func(u update) {
			select {
			case told <- describe(u):
			case <-ctx.Done():
			}
		})
	}()
	defer func() { cancel(); <-ended }()
	wants := func(want string) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Fatalf("told %q, want %q", got, want)
			}
		case <-time.After(rescan - time.Second): // before the rescan would tell
			t.Fatalf("nothing was told, want %q", want)
		}
	}
	wants("all:")
	w.write(kvstate.SourceTopic, "7.json", encoded(t, sourceRecord(7)))
	wants("+sources/7")
	w.mkdir(kvstate.AttachmentTopic)
	id := kvstate.AttachmentRecordID(7, 1)
	w.write(kvstate.AttachmentTopic, fmt.Sprintf("%d.json", id), encoded(t, attachmentRecord(7, 1)))
	wants(fmt.Sprintf("+attachments/%d", id))
	w.remove(kvstate.SourceTopic, "7.json")
	wants("-sources/7")
	w.rename(w.root, w.root+"-away")
	wants("lost")
	w.rename(w.root+"-away", w.root)
	wants(fmt.Sprintf("all: +attachments/%d", id))
}

func TestOnlyWhatConcernsTheRecordsIsNoted(t *testing.T) {
	for _, tt := range []struct {
		root, event string
		want        string // one, all or nothing
	}{
		{"/a/r", "/a/r/" + kvstate.SourceTopic + "/7.json", "one"},
		{"/a/r", "/a/r/" + kvstate.SourceTopic + "/7.json.tmp", "nothing"},
		{"/a/r", "/a/r/" + kvstate.SourceTopic + "/..data", "all"},
		{"/a/r", "/a/r/" + kvstate.SourceTopic, "all"},
		{"/a/r", "/a/r", "all"},
		{"/a/r", "/a/log", "nothing"},
		{"r", "./r", "all"},
		{"r", "./log", "nothing"},
		{".", "./" + kvstate.SourceTopic, "all"},
		{"/", "/" + kvstate.SourceTopic, "all"},
	} {
		d := newDirectory(tt.root, nil)
		var h hearsay
		got := "nothing"
		switch noted := d.note(&h, fsnotify.Event{Name: tt.event}); {
		case h.all:
			got = "all"
		case len(h.names) == 1:
			got = "one"
		case noted:
			got = "noted, but nothing to look at"
		}
		if got != tt.want {
			t.Errorf("root %s, event of %s: %s, want %s", tt.root, tt.event, got, tt.want)
		}
	}
}

func TestManyRecordsAreOneUpdate(t *testing.T) {
	const n = 300
	w := newLookedAt(t)
	w.manyRecords(n)
	var got []update
	tell := func(u update) { got = append(got, u) }
	w.dir.look(hearsay{all: true}, tell)
	w.dir.look(hearsay{all: true}, tell)
	if len(got) != 1 || len(got[0].changes) != n {
		t.Fatalf("%d updates, want one of %d records", len(got), n)
	}
}

// BenchmarkTenThousandRecords looks at a directory of 10,000 records: for the
// first time, again without changes, and at one that an event named.
func BenchmarkTenThousandRecords(b *testing.B) {
	w := newLookedAt(b)
	w.manyRecords(10_000)
	tell := func(update) {}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			newDirectory(w.root, func(refusal) {}).look(hearsay{all: true}, tell)
		}
	})
	w.dir.look(hearsay{all: true}, tell)
	b.Run("rescan", func(b *testing.B) {
		for b.Loop() {
			w.dir.look(hearsay{all: true}, tell)
		}
	})
	b.Run("event", func(b *testing.B) {
		heard := hearsay{names: map[place]bool{{kvstate.SourceTopic, "7.json"}: true}}
		for b.Loop() {
			w.dir.look(heard, tell)
		}
	})
}
