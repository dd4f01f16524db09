package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close() // like a killed process: the file stays
	second, err := listen("listen.extproc", "unix://"+path)
	if err != nil {
		t.Fatalf("with a leftover socket: %v", err)
	}
	defer second.Close()

	if _, err := listen("listen.extproc", "unix://"+path); err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("with a socket in use: %v", err)
	}
}

func TestAFileInTheSocketsPlaceIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen("listen.extproc", "unix://"+path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("got %v, want it refused", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "precious" {
		t.Errorf("the file is now %q, %v", content, err)
	}
}

func TestListenErrorsNameTheirKey(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := listen("listen.admin", taken.Addr().String()); err == nil || !strings.HasPrefix(err.Error(), "listen.admin: ") {
		t.Errorf("got %v, want an error that begins with the key", err)
	}
}
