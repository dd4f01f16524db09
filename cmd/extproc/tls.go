package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"mooring/internal/config"
)

// certificates serves the listener's TLS identity from its files. A handshake
// that finds the files changed reads them again; a pair that does not fit
// together (half of it replaced, say) leaves the old one in force and is logged
// once, until the files change again.
type certificates struct {
	files config.TLS

	mu struct {
		sync.Mutex
		seen    [3]time.Time // when each file was last changed, as of the last read
		current *tls.Config
	}
}

// serverTLS returns the TLS configuration of the gRPC listener; nil for none.
func serverTLS(files config.TLS, logger *slog.Logger) (*tls.Config, error) {
	if files.CertFile == "" {
		return nil, nil
	}
	c := &certificates{files: files}
	current, err := c.read()
	if err != nil {
		return nil, err
	}
	c.mu.seen, c.mu.current = c.changed(), current
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			newest, read, err := c.newest()
			switch {
			case err != nil:
				logger.Error("tls files refused; the old ones stay in force", "error", err)
			case read:
				logger.Info("tls files re-read")
			}
			return newest, nil
		},
	}, nil
}

// newest returns the configuration of the files as they are now or, with an
// error, the last one that worked. read says whether it had to read them.
func (c *certificates) newest() (cfg *tls.Config, read bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.changed()
	if now == c.mu.seen {
		return c.mu.current, false, nil
	}
	c.mu.seen = now
	fresh, err := c.read()
	if err != nil {
		return c.mu.current, true, err
	}
	c.mu.current = fresh
	return fresh, true, nil
}

// changed returns when each of the files was last changed; zero for a file that
// is not there.
func (c *certificates) changed() (times [3]time.Time) {
	for i, name := range []string{c.files.CertFile, c.files.KeyFile, c.files.ClientCAFile} {
		if info, err := os.Stat(name); err == nil {
			times[i] = info.ModTime()
		}
	}
	return times
}

func (c *certificates) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("listen.tls: %w", err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair}}
	if c.files.ClientCAFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(c.files.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("listen.tls.client_ca_file: %w", err)
	}
	cfg.ClientCAs, cfg.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("listen.tls.client_ca_file: " + c.files.ClientCAFile + " holds no PEM certificate")
	}
	return cfg, nil
}
