package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// contradictions finds values that are fine alone and wrong together.
func (c *Config) contradictions() Problems {
	return append(c.tlsProblems(), c.portProblems()...)
}

func (c *Config) tlsProblems() Problems {
	tls := c.Listen.TLS
	var ps Problems
	switch {
	case tls.CertFile != "" && tls.KeyFile == "":
		ps = append(ps, c.problem("listen.tls.cert_file", "has no key_file beside it; set both, or neither for plaintext"))
	case tls.CertFile == "" && tls.KeyFile != "":
		ps = append(ps, c.problem("listen.tls.key_file", "has no cert_file beside it; set both, or neither for plaintext"))
	case tls.CertFile == "" && tls.ClientCAFile != "":
		ps = append(ps, c.problem("listen.tls.client_ca_file", "needs cert_file and key_file; set them too"))
	}
	return ps
}

// portProblems finds sockets of this process, or of an Envoy beside it, that
// cannot be bound together.
func (c *Config) portProblems() Problems {
	type socket struct{ path, address string }
	sockets := []socket{
		{"listen.extproc", c.Listen.ExtProc},
		{"listen.admin", c.Listen.Admin},
		{"replication.listen", strings.TrimPrefix(c.Replication.Listen, tcpScheme)},
		{"envoy.listener", c.Envoy.Listener},
	}
	var ps Problems
	for i, a := range sockets {
		for _, b := range sockets[:i] {
			if !sameSocket(a.address, b.address) {
				continue
			}
			at, other := a, b
			if _, set := c.lines[at.path]; !set {
				at, other = b, a
			}
			ps = append(ps, c.problem(at.path, fmt.Sprintf(
				"%q is where %s is (%s); choose another port", at.address, other.path, other.address)))
		}
	}
	return ps
}

// sameSocket reports whether two listeners would meet: one port, and one host
// or all hosts.
func sameSocket(a, b string) bool {
	x, wrongX := parseHostPort(a, "")
	y, wrongY := parseHostPort(b, "")
	if wrongX != "" || wrongY != "" || x.port != y.port || x.port == 0 { // a Unix socket, or none
		return false
	}
	return x.host == y.host || isEveryHost(x.host) || isEveryHost(y.host)
}

func isEveryHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// problem places text at the line of a key; a key that the file does not set
// has no line.
func (c *Config) problem(path, text string) Problem {
	return Problem{File: c.name, Line: c.lines[path], Text: path + ": " + text}
}
