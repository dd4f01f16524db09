package envoy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"mooring/internal/fleet"
)

// WriteEndpoints puts the view's endpoints into the file at path, from which
// Envoy takes them: written beside it, synced and renamed, so that Envoy, which
// watches the directory for renames, never sees half a file. A file that says
// the same already is left alone.
//
// The directory is made if it is missing. It must be a real directory of this
// process's own user: whoever can write there chooses where requests may go.
// One writer at a time.
func WriteEndpoints(path string, view *fleet.View) error {
	content, err := endpointsYAML(view)
	if err == nil {
		_, err = put(path, content)
	}
	return err
}

// put makes the file at path say content, and reports whether it did not before.
func put(path string, content []byte) (wrote bool, err error) {
	if err := prepareDirectory(filepath.Dir(path)); err != nil {
		return false, fmt.Errorf("endpoints: %w", err)
	}
	same, err := says(path, content)
	if err == nil && !same {
		err = replace(path, content)
	}
	if err != nil {
		return false, fmt.Errorf("endpoints: %w", err)
	}
	return !same, nil
}

func prepareDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a symbolic link; want a directory", dir)
	}
	if !ownedByUs(info) {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return nil
}

// says reports whether the file at path is a regular one with that content.
func says(path string, content []byte) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case info.IsDir():
		return false, fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular() || info.Size() != int64(len(content)):
		return false, nil // a rename puts things right
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	old, err := io.ReadAll(io.LimitReader(f, int64(len(content))+1))
	return bytes.Equal(old, content), err
}

func replace(path string, content []byte) (err error) {
	dir := filepath.Dir(path)
	temporary, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			temporary.Close()
			os.Remove(temporary.Name())
		}
	}()
	if _, err := temporary.Write(content); err != nil {
		return err
	}
	// Envoy may run as another user.
	if err := temporary.Chmod(0o644); err != nil {
		return err
	}
	if err := temporary.Sync(); err != nil {
		return err
	}
	if err := temporary.Close(); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return err
	}
	return syncDirectory(dir)
}

// syncDirectory makes the rename last through a power cut.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
