package config

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// CheckFiles reports, for every file that the configuration names and that must
// be there, whether it can be used. The error is Problems. It reads the files as
// they are now; what it finds may change.
func (c *Config) CheckFiles() error {
	var ps Problems
	refuse := func(key string, err error) {
		if err != nil {
			ps = append(ps, c.problem(key, err.Error()))
		}
	}
	refuse("listen.tls.cert_file", c.Listen.TLS.unusable())
	refuse("listen.tls.client_ca_file", unreadable(c.Listen.TLS.ClientCAFile))
	refuse("workers.file", unreadable(c.Workers.File))
	refuse("replication.key_file", c.Replication.badKey())
	if err := unwatchable(c.KVState.RecordsDir); !errors.Is(err, fs.ErrNotExist) { // it may come yet
		refuse("kvstate.records_dir", err)
	}
	if c.Envoy.Attachment == AttachOverrideHost {
		refuse("envoy.endpoints_file", directory(c.Envoy.EndpointsFile))
	}
	return ps.orNil()
}

// unusable says why the pair of certificate and key cannot be served.
func (t TLS) unusable() error {
	if t.CertFile == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile); err != nil {
		return fmt.Errorf("certificate and key cannot be used: %w", err)
	}
	return nil
}

// minMeshKey is how long a mesh key must be, in bytes, white space around it left
// out. See replication.MinKey.
const minMeshKey = 16

// badKey says why the key of the mesh cannot be used.
func (r Replication) badKey() error {
	if r.KeyFile == "" {
		return nil
	}
	if err := unreadable(r.KeyFile); err != nil {
		return err
	}
	key, err := readFile(r.KeyFile)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if n := len(bytes.TrimSpace(key)); n < minMeshKey {
		return fmt.Errorf("%s holds %d bytes; a key has at least %d, as from: head -c 32 /dev/urandom | base64", r.KeyFile, n, minMeshKey)
	}
	return nil
}

func unreadable(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a directory; name a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	return f.Close()
}

// unwatchable says why a directory cannot be watched. It is fs.ErrNotExist if it is
// not there.
func unwatchable(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is a file; name a directory", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	return f.Close()
}

// directory says that a path which is to be written is a directory.
func directory(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory; name a file, which Mooring makes and replaces", path)
	}
	return nil
}
