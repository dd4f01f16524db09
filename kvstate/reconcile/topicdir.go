package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
)

const (
	maxRecordBytes  = 64 << 10 // of one file
	maxRecords      = 32 << 10 // of one topic; further ones are refused
	maxFiles        = 2 * maxRecords
	recordExtension = ".json"
)

// topicDir is one topic's directory as it was last seen.
type topicDir struct {
	name    string
	decode  func(id uint64, data []byte) (any, error)
	refused func(refusal)
	seen    bool                   // it was there once
	records map[uint64]any         // accepted: kvstate.SourceAdvertisement or kvstate.AttachmentAdvertisement
	looked  map[string]fs.FileInfo // the version of each file that was read last, taken or not
}

func newTopicDir(name string, decode func(uint64, []byte) (any, error), refused func(refusal)) *topicDir {
	return &topicDir{
		name: name, decode: decode, refused: refused,
		records: make(map[uint64]any), looked: make(map[string]fs.FileInfo),
	}
}

// look reads the files of these names, or all if names is nil, and adds what has
// changed to u. After an error nothing was withdrawn.
func (t *topicDir) look(root string, names map[string]bool, u *update) error {
	dir := filepath.Join(root, t.name)
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
	if names == nil {
		if names, err = t.list(dir); err != nil {
			return err
		}
	}
	var gone []string
	for name := range names {
		if there := t.lookAt(dir, name, u); !there {
			gone = append(gone, name)
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
	return nil
}

// list returns the names to look at: those in the directory and those known.
func (t *topicDir) list(dir string) (map[string]bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names := make(map[string]bool, len(t.looked))
	for name := range t.looked {
		names[name] = true
	}
	for len(names) < maxFiles {
		page, err := f.Readdirnames(1024)
		for _, name := range page {
			names[name] = true
		}
		if err == io.EOF {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
	t.refused(refusal{tooMany, t.name, fmt.Errorf("%s has %d files or more; the rest is not read", dir, maxFiles)})
	return names, nil
}

// lookAt reads one file if its version is new. It reports whether it is there.
func (t *topicDir) lookAt(dir, name string, u *update) (there bool) {
	id, ok := recordID(name)
	if !ok {
		return true // not the name of a record: nothing of ours
	}
	path := filepath.Join(dir, name)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil {
		t.refused(refusal{unreadable, path, err})
		return true
	}
	if old, ok := t.looked[name]; ok && sameVersion(old, info) {
		return true
	}
	t.looked[name] = info
	r, err := t.read(path, id, info)
	var no refusal
	switch {
	case err == errIncomplete, err == errRepeated: // the next version is looked at again
	case errors.As(err, &no):
		t.refused(no)
		if no.reason == unreadable { // that can change without a new version
			delete(t.looked, name)
		}
	default:
		t.records[id] = r
		u.changes = append(u.changes, change{topic: t.name, id: id, record: r})
	}
	return true
}

// errIncomplete is a file that ends before its JSON does.
var errIncomplete = errors.New("the file is not whole yet")

// errRepeated is a file that says again what is known.
var errRepeated = errors.New("the record is known")

// read returns the new record of a file. A record is immutable: the first payload
// under an id stays until the file leaves. The error is errIncomplete, errRepeated
// or a refusal.
func (t *topicDir) read(path string, id uint64, info fs.FileInfo) (any, error) {
	switch {
	case !info.Mode().IsRegular():
		return nil, refusal{notAFile, path, errors.New("a record is a regular file")}
	case info.Size() > maxRecordBytes:
		return nil, refusal{tooLarge, path, fmt.Errorf("%d bytes; a record has %d at most", info.Size(), maxRecordBytes)}
	case len(t.records) >= maxRecords && !t.knows(id):
		return nil, refusal{tooMany, path, fmt.Errorf("a topic has %d records at most", maxRecords)}
	}
	data, err := readSome(path)
	if err != nil {
		return nil, refusal{unreadable, path, err}
	}
	if !whole(data) {
		return nil, errIncomplete
	}
	value, err := t.decode(id, data)
	if err != nil {
		var no refusal
		if !errors.As(err, &no) {
			no = refusal{reason: malformed, err: err}
		}
		no.where = path
		return nil, no
	}
	if known, ok := t.records[id]; ok {
		if reflect.DeepEqual(known, value) {
			return nil, errRepeated
		}
		return nil, refusal{changed, path, errors.New("a record never changes: another payload under a known id, the first stays")}
	}
	return value, nil
}

func (t *topicDir) knows(id uint64) bool {
	_, ok := t.records[id]
	return ok
}

// readSome reads a file, but no more of it than a record may have, and without
// waiting for a writer if the path has become a pipe.
func readSome(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRecordBytes+1))
}

// whole reports whether data does not end in the middle of its JSON. What is
// wrong in another way is whole.
func whole(data []byte) bool {
	var raw json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal(data, &raw); errors.As(err, &syntax) {
		return syntax.Offset < int64(len(data))
	}
	return true
}

// withdraw forgets a file that has left.
func (t *topicDir) withdraw(name string, u *update) {
	delete(t.looked, name)
	id, _ := recordID(name)
	if _, known := t.records[id]; known {
		delete(t.records, id)
		u.changes = append(u.changes, change{topic: t.name, id: id})
	}
}

// recordID reads the name of a record's file: its id in decimal, and ".json".
func recordID(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, recordExtension)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(digits, 10, 64)
	return id, err == nil && strconv.FormatUint(id, 10) == digits
}

// sameVersion reports whether a file is still what it was: the same inode, of the
// same size, written at the same time.
func sameVersion(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
