package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// listen opens "host:port" or "unix:///path". A socket file that nobody answers
// on is a leftover and is replaced; one that is in use is an error.
func listen(key, address string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, "unix://")
	if !isUnix {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		return ln, nil
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	// Envoy often runs as another user of the same pod; the directory decides
	// who can reach the socket.
	if err := os.Chmod(path, 0o666); err != nil {
		ln.Close()
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return ln, nil
}

func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSocket == 0:
		return fmt.Errorf("%s exists and is no socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("%s: another process listens there", path)
	}
	return os.Remove(path)
}
