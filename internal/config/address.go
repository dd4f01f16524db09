package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxSocketPath is what Linux lets a Unix socket's path have, without its
// closing zero byte.
const maxSocketPath = 107

// hostPort is one address, canonical: IP addresses in their shortest spelling,
// IPv4-mapped ones as IPv4, names as they are written.
type hostPort struct {
	host string // "" is every address of the machine
	port uint16
}

func (a hostPort) String() string { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }

// parseHostPort reads "host:port". example is a right one, for the message.
func parseHostPort(s, example string) (hostPort, string) {
	want := "write host:port, as in " + example
	if _, rest, ok := strings.Cut(s, "://"); ok {
		return hostPort{}, fmt.Sprintf("is no address; it takes no scheme or path: write %s", firstField(rest, example))
	}
	host, portText, err := net.SplitHostPort(s)
	if err != nil {
		return hostPort{}, notSplit(s, want, example)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || portText[0] == '+' {
		return hostPort{}, fmt.Sprintf("has port %s; a port is a number from 0 to 65535", quote(portText))
	}
	host, wrong := canonicalHost(host, strings.HasPrefix(s, "["))
	if wrong != "" {
		return hostPort{}, wrong + "; " + want
	}
	return hostPort{host, uint16(port)}, ""
}

// notSplit says why s has no host and port.
func notSplit(s, want, example string) string {
	bracketed := strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]")
	if strings.Count(s, ":") > 1 && !bracketed {
		i := strings.LastIndexByte(s, ':')
		if ip, err := netip.ParseAddr(s[:i]); err == nil && ip.Is6() {
			return fmt.Sprintf("has an IPv6 address without brackets; write [%s]%s", shorten(s[:i]), shorten(s[i:]))
		}
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err == nil && (bracketed || !strings.ContainsAny(s, "[]")) {
		if ip.Is6() && !bracketed {
			return "has an IPv6 address without brackets, and no port; " + want
		}
		return "has no port; add one, as in " + example
	}
	return "is no address; " + want
}

func firstField(rest, example string) string {
	rest, _, _ = strings.Cut(rest, "/")
	if rest == "" {
		return example
	}
	return shorten(rest)
}

func canonicalHost(host string, bracketed bool) (canonical, wrong string) {
	if host == "" {
		return "", ""
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && bracketed && ip.Is4():
		return "", "has an IPv4 address in brackets"
	case err == nil && strings.ContainsFunc(ip.Zone(), notInHostName):
		return "", "has a strange IPv6 zone"
	case err == nil:
		return ip.Unmap().String(), ""
	case bracketed:
		return "", "has no IPv6 address between its brackets"
	}
	return host, wrongHostName(host)
}

// wrongHostName says why host cannot be a DNS name, "" if it can.
func wrongHostName(host string) string {
	if len(host) > 253 {
		return "has a host name of more than 253 bytes"
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, notInHostName) ||
			label[0] == '-' || label[len(label)-1] == '-' {
			return "has a host that is neither an IP address nor a DNS name"
		}
	}
	// A name that ends in digits would be taken for an address by some and
	// looked up by others (WHATWG URL, "ends in a number").
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return "has a host that looks like an IPv4 address and is none"
	}
	return ""
}

func notInHostName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}

// listenAddress is where a socket listens: any host, port 0 for a free one.
func listenAddress(example string) check {
	return func(s string) (string, string) {
		a, wrong := parseHostPort(s, example)
		if wrong != "" {
			return "", wrong
		}
		return a.String(), ""
	}
}

// listenOrUnix is listenAddress, or the path of a Unix socket.
func listenOrUnix(s string) (string, string) {
	path, ok := strings.CutPrefix(s, "unix:")
	if !ok {
		return listenAddress("127.0.0.1:9002")(s)
	}
	path, ok = strings.CutPrefix(path, "//")
	switch {
	case !ok || !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/"):
		return "", "is no socket; write unix:// and an absolute path, as in unix:///run/mooring/extproc.sock"
	case strings.ContainsRune(path, 0):
		return "", "holds a zero byte; write unix:// and an absolute path"
	case len(path) > maxSocketPath:
		return "", fmt.Sprintf("has a path of %d bytes; a Unix socket takes at most %d", len(path), maxSocketPath)
	}
	return "unix://" + path, ""
}

// peerAddress is where something is reached: a host that names one machine and
// a port that is not 0.
func peerAddress(s, example string) (hostPort, string) {
	a, wrong := parseHostPort(s, example)
	if wrong != "" {
		return hostPort{}, wrong
	}
	ip, err := netip.ParseAddr(a.host)
	switch {
	case a.port == 0:
		return hostPort{}, "has port 0; write the port it listens on, 1 to 65535"
	case a.host == "":
		return hostPort{}, "has no host; write host:port, as in " + example
	case err == nil && ip.Zone() != "":
		return hostPort{}, "has an IPv6 zone, which means something else on every machine; write a global address"
	case err == nil && (ip.IsUnspecified() || ip.IsMulticast()):
		return hostPort{}, "is no address of one machine; write host:port, as in " + example
	}
	return a, ""
}

func workerAddress(s string) (string, string) {
	a, wrong := peerAddress(s, "10.0.0.7:8000")
	if wrong != "" {
		return "", wrong
	}
	return a.String(), ""
}

const tcpScheme = "tcp://"

// tcpEndpoint is what ZeroMQ connects to.
func tcpEndpoint(example string) check {
	return func(s string) (string, string) {
		rest, ok := strings.CutPrefix(s, tcpScheme)
		if !ok {
			return "", "is no endpoint; write tcp://host:port, as in " + example
		}
		a, wrong := peerAddress(rest, example)
		if wrong != "" {
			return "", wrong
		}
		return tcpScheme + a.String(), ""
	}
}

// tcpListener is what ZeroMQ binds.
func tcpListener(s string) (string, string) {
	rest, ok := strings.CutPrefix(s, tcpScheme)
	if !ok {
		return "", "is no endpoint; write tcp://host:port, as in tcp://127.0.0.1:9092"
	}
	a, wrong := parseHostPort(rest, "tcp://127.0.0.1:9092")
	if wrong != "" {
		return "", wrong
	}
	return tcpScheme + a.String(), ""
}

// urlPath is the path of a URL on a worker.
func urlPath(s string) (string, string) {
	u, err := url.ParseRequestURI(s)
	if err != nil || !strings.HasPrefix(s, "/") || u.Host != "" || strings.ContainsAny(s, " #") {
		return "", "is no path; write one that begins with /, or \"\" for none"
	}
	return s, ""
}

// httpURL is where an HTTP service is.
func httpURL(s string) (string, string) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return "", "is no URL; write http://host:port/path"
	}
	return s, ""
}

// tokenizerURL is httpURL or TokenizerOff.
func tokenizerURL(s string) (string, string) {
	if s == TokenizerOff {
		return s, ""
	}
	if _, wrong := httpURL(s); wrong != "" {
		return "", wrong + ", \"off\" for none, or \"\" for the workers' own"
	}
	return s, ""
}
