package simworker

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mooring/kvstate"
)

// Limits of what is read of a directory of records.
const (
	maxRecordFiles = 1 << 16
	maxRecordBytes = 64 << 10
)

// recordDir is a directory of discovery records: <dir>/<topic>/<id>.json.
type recordDir string

func (d recordDir) path(topic string, id uint64) string {
	return filepath.Join(string(d), topic, strconv.FormatUint(id, 10)+".json")
}

// write puts a record there. A reader sees the whole file or none.
func (d recordDir) write(topic string, id uint64, record any) error {
	data, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("record %d of %s: %w", id, topic, err)
	}
	path := d.path(topic, id)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// remove withdraws a record. That it is gone already is no error.
func (d recordDir) remove(topic string, id uint64) error {
	if err := os.Remove(d.path(topic, id)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// evict withdraws every source and attachment of a cache owner, as the end of
// its lease would do with those of a process that died. What is no such record
// is left alone.
func (d recordDir) evict(owner kvstate.CacheOwnerID) error {
	for _, topic := range []string{kvstate.AttachmentTopic, kvstate.SourceTopic} {
		f, err := os.Open(filepath.Join(string(d), topic))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		names, err := f.Readdirnames(maxRecordFiles)
		f.Close()
		if err != nil && err != io.EOF {
			return err
		}
		for _, name := range names {
			path := filepath.Join(string(d), topic, name)
			if strings.HasSuffix(name, ".json") && recordOwner(path) == owner {
				if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
					return err
				}
			}
		}
	}
	return nil
}

// recordOwner returns the cache owner of a record, nobody if it cannot be read.
func recordOwner(path string) kvstate.CacheOwnerID {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxRecordBytes {
		return kvstate.CacheOwnerID{}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return kvstate.CacheOwnerID{}
	}
	var record struct {
		CacheOwnerID kvstate.CacheOwnerID `json:"cache_owner_id"`
	}
	if json.Unmarshal(data, &record) != nil {
		return kvstate.CacheOwnerID{}
	}
	return record.CacheOwnerID
}
