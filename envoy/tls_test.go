package envoy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"mooring/envoy"
)

// identity is a self-signed certificate in files and in memory.
type identity struct {
	cert, key string
	pair      tls.Certificate
	pool      *x509.CertPool
}

func newIdentity(t *testing.T, name string) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	id := identity{cert: filepath.Join(dir, "crt.pem"), key: filepath.Join(dir, "key.pem"), pool: x509.NewCertPool()}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyBytes})
	if err := os.WriteFile(id.cert, certPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(id.key, keyPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	if id.pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	id.pool.AppendCertsFromPEM(certPEM)
	return id
}

func TestTLSToMooring(t *testing.T) {
	server, client, stranger := newIdentity(t, "mooring.test"), newIdentity(t, "envoy.test"), newIdentity(t, "mooring.test")
	plain := &tls.Config{Certificates: []tls.Certificate{server.pair}}
	mutual := &tls.Config{Certificates: []tls.Certificate{server.pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: client.pool}
	tests := []struct {
		name   string
		server *tls.Config
		envoy  *envoy.TLS
		want   int
	}{
		{"its own certificate is trusted", plain, &envoy.TLS{CAFile: server.cert}, http.StatusOK},
		{"and its name checked", plain, &envoy.TLS{CAFile: server.cert, ServerName: "mooring.test"}, http.StatusOK},
		{"the name is another", plain, &envoy.TLS{CAFile: server.cert, ServerName: "other.test"}, http.StatusServiceUnavailable},
		{"the certificate is another of the same name", plain, &envoy.TLS{CAFile: stranger.cert}, http.StatusServiceUnavailable},
		{"anything goes", plain, &envoy.TLS{}, http.StatusOK},
		{"both sides", mutual, &envoy.TLS{CAFile: server.cert, CertFile: client.cert, KeyFile: client.key}, http.StatusOK},
		{"the client shows none", mutual, &envoy.TLS{CAFile: server.cert}, http.StatusServiceUnavailable},
		{"plaintext to TLS", plain, nil, http.StatusServiceUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startRig(t, func(c *envoy.Config) { c.TLS = tt.envoy }, grpc.Creds(credentials.NewTLS(tt.server)))
			if a := r.post("x-test-pick", r.workers[0].address); a.status != tt.want {
				t.Errorf("got %d, want %d", a.status, tt.want)
			}
			if tt.want == http.StatusOK {
				r.entry()
			}
		})
	}
}
