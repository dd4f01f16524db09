package envoy

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

func makeSocketAddress(host string, port uint16) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       host,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

// makeListenAddress returns where a socket of Envoy's listens. Envoy resolves no
// names for its listeners, so host must be an IP address or empty.
func makeListenAddress(s string) (*corev3.Address, error) {
	host, portText, err := net.SplitHostPort(s)
	if err != nil {
		return nil, fmt.Errorf("address %q: want ip:port", s)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Zone() != "" {
		return nil, fmt.Errorf("address %q: Envoy listens on IP addresses only", s)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("address %q: want a port from 0 to 65535", s)
	}
	return makeSocketAddress(ip.String(), uint16(port)), nil
}

// makePeerAddress returns where something is reached. named says that its host
// is a name, to be resolved by DNS.
func makePeerAddress(s string) (address *corev3.Address, named bool, err error) {
	if path, ok := strings.CutPrefix(s, "unix://"); ok {
		if !filepath.IsAbs(path) {
			return nil, false, fmt.Errorf("address %q: want unix:// and an absolute path", s)
		}
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}, false, nil
	}
	host, portText, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return nil, false, fmt.Errorf("address %q: want host:port or unix:///path", s)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return nil, false, fmt.Errorf("address %q: want a port from 1 to 65535", s)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return makeSocketAddress(host, uint16(port)), true, nil
	}
	return makeSocketAddress(ip.String(), uint16(port)), false, nil
}
