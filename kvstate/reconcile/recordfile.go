package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strconv"
	"strings"
	"syscall"
)

const (
	maxRecordBytes  = 64 << 10 // of one file
	recordExtension = ".json"
)

// errIncomplete is a file that ends before its JSON does.
var errIncomplete = errors.New("the file is not whole yet")

// errRepeated is a file that says again what is known.
var errRepeated = errors.New("the record is known")

// errNoRoom is a file with a further record when there are as many as may be.
var errNoRoom = errors.New("no room for another record")

// read returns the new record of a file. A record is immutable: the first payload
// under an id stays until the file leaves. The error is errIncomplete, errRepeated,
// errNoRoom or a refusal.
func (t *topicDir) read(path string, id uint64, info fs.FileInfo) (any, error) {
	switch {
	case !info.Mode().IsRegular():
		return nil, refusal{reason: notAFile, err: errors.New("a record is a regular file")}
	case info.Size() > maxRecordBytes:
		return nil, refusal{reason: tooLarge, err: fmt.Errorf("%d bytes; a record has %d at most", info.Size(), maxRecordBytes)}
	case len(t.records) >= t.mostRecords && !t.knows(id):
		return nil, errNoRoom
	}
	readFile := readSome
	if t.testingOnlyReadFile != nil {
		readFile = t.testingOnlyReadFile
	}
	data, err := readFile(path)
	if err != nil {
		return nil, refusal{reason: unreadable, err: err}
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
		return nil, no
	}
	if known, ok := t.records[id]; ok {
		if reflect.DeepEqual(known, value) {
			return nil, errRepeated
		}
		return nil, refusal{reason: changed, err: errors.New("a record never changes: another payload under a known id, the first stays")}
	}
	return value, nil
}

// statRecord describes a file. Links are followed: in a volume that Kubernetes
// mounts every file is one. The error is fs.ErrNotExist only if not even a link is
// there; the target of a link may be away for a moment.
func statRecord(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Lstat(path); gone == nil {
			return nil, errors.New("a link whose target is not there")
		}
	}
	return info, err
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
// same size, written at the same time. nil is one of which nothing is known.
func sameVersion(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
