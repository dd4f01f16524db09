package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mooring/internal/config"
)

// writePair writes a self-signed certificate and its key.
func writePair(t *testing.T, files config.TLS, serial int64, parts ...string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "mooring"}, DNSNames: []string{"mooring"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyBytes, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		block, name := &pem.Block{Type: "CERTIFICATE", Bytes: cert}, files.CertFile
		if part == "key" {
			block, name = &pem.Block{Type: "EC PRIVATE KEY", Bytes: keyBytes}, files.KeyFile
		}
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		// File systems round times: make sure that a change shows.
		stamp := time.Now().Add(time.Duration(serial) * time.Second)
		if err := os.Chtimes(name, stamp, stamp); err != nil {
			t.Fatal(err)
		}
	}
}

// served returns the serial number of the certificate that a handshake gets.
func served(t *testing.T, server *tls.Config, client *tls.Config) (int64, error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	serverSide := make(chan error, 1)
	go func() { serverSide <- tls.Server(b, server).Handshake() }()
	conn := tls.Client(a, client)
	if err := conn.Handshake(); err != nil {
		return 0, err
	}
	if err := <-serverSide; err != nil {
		return 0, err
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func anyServer() *tls.Config {
	// The test looks at which certificate is served, not at who signed it; with
	// TLS 1.2 a refused client certificate shows in the handshake.
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MaxVersion: tls.VersionTLS12}
}

func TestRenewedCertificateIsServedOnceItsPairIsWhole(t *testing.T) {
	dir := t.TempDir()
	files := config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	writePair(t, files, 1, "cert", "key")
	var log bytes.Buffer
	server, err := serverTLS(files, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, want int64) {
		t.Helper()
		if got, err := served(t, server, anyServer()); err != nil || got != want {
			t.Errorf("%s: served certificate %d, %v; want %d", when, got, err, want)
		}
	}
	expect("at the start", 1)
	writePair(t, files, 2, "cert")
	expect("with half a new pair", 1)
	if !bytes.Contains(log.Bytes(), []byte("refused")) {
		t.Errorf("the log does not say that the pair was refused: %s", &log)
	}
	writePair(t, files, 3, "cert", "key")
	expect("with a whole new pair", 3)
}

func TestClientsWithoutACertificateAreRefused(t *testing.T) {
	dir := t.TempDir()
	files := config.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	writePair(t, files, 1, "cert", "key")
	files.ClientCAFile = files.CertFile
	server, err := serverTLS(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := served(t, server, anyServer()); err == nil {
		t.Error("a client without a certificate was let in")
	}
	client := anyServer()
	pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	client.Certificates = []tls.Certificate{pair}
	if _, err := served(t, server, client); err != nil {
		t.Errorf("a client with a certificate: %v", err)
	}
}

func TestMissingFilesAreAnErrorAtTheStart(t *testing.T) {
	if _, err := serverTLS(config.TLS{CertFile: "missing", KeyFile: "missing"}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("want an error")
	}
}
