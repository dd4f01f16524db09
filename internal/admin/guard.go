package admin

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard refuses requests that a browser may have been tricked into by DNS
// rebinding: a page of evil.example whose name now resolves to a loopback
// address is, to the browser, of the same origin as this API. Such a request
// carries the attacker's name in Host; an address cannot be rebound.
//
// It holds for connections that arrived at a loopback address. Elsewhere the
// host names by which people reach this replica are not known here.
func (s *server) guard(r *http.Request) error {
	if !onLoopback(r) {
		return nil
	}
	host := hostName(r.Host)
	if _, err := netip.ParseAddr(host); err == nil || strings.EqualFold(host, "localhost") {
		return nil
	}
	if s.cfg.Host != "" && strings.EqualFold(host, s.cfg.Host) {
		return nil
	}
	return forbidden("the Host header names %q; on a loopback address it must be an IP address, localhost, or the host name in listen.admin", r.Host)
}

// onLoopback reports whether the request came in at a loopback address. Where
// that is not known, it is taken to be so.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return true
	}
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// hostName returns host without its port, without the brackets of an IPv6
// address and without the final dot of a full domain name.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	return strings.TrimSuffix(host, ".")
}

// guardWrite refuses writes from pages of other sites, and bodies not declared
// as JSON: a plain HTML form can declare neither that nor PUT, and a script of
// another site must ask first, which is refused.
func (s *server) guardWrite(r *http.Request) error {
	if err := s.writes.Check(r); err != nil {
		return forbidden("writes from pages of other sites are refused")
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &refusal{http.StatusUnsupportedMediaType, "unsupported_media_type", "writes need Content-Type: application/json"}
	}
	return nil
}
