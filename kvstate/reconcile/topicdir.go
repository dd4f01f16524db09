package reconcile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	maxRecords = 32 << 10       // of one topic; further ones wait for room
	maxFiles   = 2 * maxRecords // of one topic that are remembered, taken or not
	maxOthers  = 16             // names that a look reads for each of these, whatever they name
)

// topicDir is one topic's directory as it was last seen.
type topicDir struct {
	name    string
	decode  func(id uint64, data []byte) (any, error)
	refused func(refusal)
	seen    bool               // it was there once
	away    bool               // the last look failed: another directory can be there now
	crowded bool               // files wait for room, and that was told
	records map[uint64]any     // accepted: kvstate.SourceAdvertisement or kvstate.AttachmentAdvertisement
	looked  map[string]version // what was read last, taken or not. Invariant: the file of every record is there

	// Invariants: len(records) <= mostRecords, len(looked) <= mostFiles.
	mostRecords, mostFiles int

	testingOnlyReadFile func(path string) ([]byte, error) // nil: readSome
}

// version is a file as it was read last.
type version struct {
	info  fs.FileInfo // nil: even that could not be read
	again bool        // it was unreadable, which can change without a new version
}

func newTopicDir(name string, decode func(uint64, []byte) (any, error), refused func(refusal)) *topicDir {
	return &topicDir{
		name: name, decode: decode, refused: refused,
		records: make(map[uint64]any), looked: make(map[string]version),
		mostRecords: maxRecords, mostFiles: maxFiles,
	}
}

// look reads the files of these names, or all if names is nil, and adds what has
// changed to u. After an error nothing was withdrawn, and the next look must be at
// all; u need not say then which records have left: t.records has those there are.
func (t *topicDir) look(root string, names map[string]bool, u *update) error {
	err := t.lookInto(filepath.Join(root, t.name), root, names, u)
	t.away = err != nil
	return err
}

func (t *topicDir) lookInto(dir, root string, names map[string]bool, u *update) error {
	before, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, away := os.Stat(root); away != nil || !t.seen {
			return away // nil: the root is there, and nobody has written a record yet
		}
	}
	if err != nil {
		return err
	}
	t.seen = true
	all, waiting := names == nil, false
	if all {
		if names, waiting, err = t.list(dir); err != nil {
			return err
		}
	}
	var gone []string
	for name := range names {
		switch t.lookAt(dir, name, u) {
		case left:
			gone = append(gone, name)
		case waits:
			waiting = true
		}
	}
	// That files are gone counts only if their directory was there all the time.
	after, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !os.SameFile(before, after) {
		return fmt.Errorf("%s was replaced while it was read", dir)
	}
	for _, name := range gone {
		t.withdraw(name, u)
	}
	t.crowd(dir, waiting, all)
	return nil
}

// crowd notes whether files wait for room, which is told when it begins. Only a
// look at all finds that none waits any more.
func (t *topicDir) crowd(dir string, waiting, all bool) {
	if waiting && !t.crowded {
		t.refused(refusal{tooMany, t.name, dir,
			fmt.Errorf("a topic has %d records and %d files at most, further ones wait", t.mostRecords, t.mostFiles)})
	}
	t.crowded = waiting || t.crowded && !all
}

// list returns the names to look at: those remembered, and those of the directory
// that a record can have, as far as there is room for them. more says that there
// are others.
func (t *topicDir) list(dir string) (names map[string]bool, more bool, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	names = make(map[string]bool, len(t.looked))
	for name := range t.looked {
		names[name] = true
	}
	for read := 0; read < maxOthers*t.mostFiles; {
		page, err := f.Readdirnames(1024)
		for _, name := range page {
			if _, ok := recordID(name); !ok || names[name] {
				continue
			}
			if len(names) >= t.mostFiles {
				return names, true, nil
			}
			names[name] = true
		}
		if read += len(page); err == io.EOF {
			return names, false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return names, true, nil
}

// whereabouts is what came of a look at one file.
type whereabouts uint8

const (
	stays whereabouts = iota // it is there, or is nothing of ours
	left                     // it is not there
	waits                    // it is there, and there is no room for it: it is not remembered
)

// lookAt reads one file if its version is new.
func (t *topicDir) lookAt(dir, name string, u *update) whereabouts {
	id, ok := recordID(name)
	if !ok {
		return stays
	}
	path := filepath.Join(dir, name)
	info, err := statRecord(path)
	last, known := t.looked[name]
	same := known && sameVersion(last.info, info)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return left
	case !known && len(t.looked) >= t.mostFiles:
		return waits
	case same && !last.again:
		return stays
	case t.away && err == nil && !same:
		delete(t.records, id) // its own file left with its directory; this is another's
	}
	return t.take(path, name, id, version{info: info, again: same}, err, u)
}

// take reads a file and remembers it. now.again says that this version was read
// before; err why nothing is known of it but its name.
func (t *topicDir) take(path, name string, id uint64, now version, err error, u *update) whereabouts {
	var r any
	if err == nil {
		r, err = t.read(path, id, now.info)
	} else {
		err = refusal{reason: unreadable, err: err}
	}
	told := now.again
	now.again = false
	var no refusal
	switch {
	case err == errNoRoom:
		delete(t.looked, name)
		return waits
	case errors.As(err, &no):
		if now.again = no.reason == unreadable; !now.again || !told {
			no.topic, no.where = t.name, path
			t.refused(no)
		}
	case err == nil:
		t.records[id] = r
		u.changes = append(u.changes, change{topic: t.name, id: id, record: r})
	}
	t.looked[name] = now
	return stays
}

// withdraw forgets a file that has left.
func (t *topicDir) withdraw(name string, u *update) {
	delete(t.looked, name)
	id, _ := recordID(name)
	if t.knows(id) {
		delete(t.records, id)
		u.changes = append(u.changes, change{topic: t.name, id: id})
	}
}

func (t *topicDir) knows(id uint64) bool {
	_, ok := t.records[id]
	return ok
}
