package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Load reads the configuration file at path. Relative paths in it are taken
// from its directory and come back absolute. The error is Problems if the file
// could be read and was found wrong.
func Load(path string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	c, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("find the directory of %s: %w", path, err)
	}
	for _, file := range c.files() {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(dir, *file)
		}
	}
	return c, nil
}

// files returns every value that is the path of a file or directory.
func (c *Config) files() []*string {
	tls := &c.Listen.TLS
	return []*string{
		&tls.CertFile, &tls.KeyFile, &tls.ClientCAFile, &c.Workers.File,
		&c.Replication.KeyFile, &c.KVState.RecordsDir, &c.Envoy.EndpointsFile,
	}
}

// readFile reads at most one byte more than a file may have.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// Parse reads a configuration file's content. The name is for messages. The
// error is Problems: everything that is wrong, ordered by line.
func Parse(name string, data []byte) (*Config, error) {
	root, err := document(name, data)
	if err != nil {
		return nil, err
	}
	c, r := Default(), newReader(name)
	if root != nil {
		readSection(r, fileSchema(), "", "", root, c)
	}
	c.name, c.lines = name, r.lines
	r.add(c.contradictions()...)
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}
