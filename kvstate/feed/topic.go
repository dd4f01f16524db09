package feed

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strings"

	"mooring/kvstate"
)

// maxHost bounds the host of a topic that is read, in bytes.
const maxHost = 80

// publishersOf returns whom a topic of this form names, if HOST is an IP address;
// port 0 if it names none:
//
//	kv@HOST[:PORT]@MODEL
//	kv@10.0.0.5:8000@org/m
//	kv@[fd00::5]:8000@org/m@v2
//
// A pod's IPv6 address is put there without brackets often enough. Then the last
// group may be the port, and both readings are returned.
func publishersOf(topic []byte) (host string, named []netip.AddrPort) {
	rest, ok := bytes.CutPrefix(topic, []byte("kv@"))
	where, _, model := bytes.Cut(rest, []byte("@"))
	if !ok || !model || len(where) > maxHost {
		return "", nil
	}
	host = string(where)
	if at, err := netip.ParseAddrPort(host); err == nil {
		return host, []netip.AddrPort{plain(at)}
	}
	bare := host
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		bare = host[1 : len(host)-1]
	}
	if ip, err := netip.ParseAddr(bare); err == nil {
		named = append(named, plain(netip.AddrPortFrom(ip, 0)))
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && bare == host {
		if at, err := netip.ParseAddrPort("[" + host[:i] + "]" + host[i:]); err == nil {
			named = append(named, plain(at))
		}
	}
	return host, named
}

// plain is an address as IPv4 if it can be, and without a zone.
func plain(at netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(at.Addr().WithZone("").Unmap(), at.Port())
}

// claim is what a topic says of whose events are under it.
type claim uint8

const (
	nobodys claim = iota // it cannot be told
	ours
	another
)

// claimOf compares who is named with where the worker is; the zero value: nobody
// knows. With the worker's host it is taken for the worker's whatever the port,
// which may be a rank's, unless neighbour says that another worker is there.
func claimOf(named, own netip.AddrPort, neighbour func(netip.AddrPort) bool) claim {
	host, at := named.Addr(), own.Addr()
	switch {
	case host == at && named.Port() != 0 && named.Port() != own.Port() && neighbour(named):
		return another
	case host == at:
		return ours
	case host.IsUnspecified(), host.IsLoopback():
		return nobodys // an engine that does not know its address
	case at.IsValid() && !at.IsLoopback() && host.Is4() == at.Is4(), neighbour(netip.AddrPortFrom(host, 0)):
		return another
	}
	return nobodys
}

// stranger returns what is wrong with a topic that names another worker; "" if it
// does not.
func (f *Feed) stranger(topic []byte) string {
	if f.cfg.Topic != "" || f.cfg.Address == nil {
		return ""
	}
	host, named := publishersOf(topic)
	own, wrong := netip.AddrPort{}, false
	if len(named) > 0 {
		own = plain(f.cfg.Address())
	}
	for _, n := range named {
		switch claimOf(n, own, f.cfg.Neighbour) {
		case ours:
			return ""
		case another:
			wrong = true
		}
	}
	switch {
	case !wrong:
		return ""
	case !own.IsValid():
		return fmt.Sprintf("the topic names %s, which is another worker", host)
	}
	return fmt.Sprintf("the topic names %s, the worker is at %s", host, own)
}

// believes reports whether what comes under a topic is the worker's, and makes the
// topic that of the connection. What came from somebody else is forgotten.
func (f *Feed) believes(ctx context.Context, topic []byte) bool {
	if wrong := f.stranger(topic); wrong != "" {
		if f.agent.PublisherError == "" {
			f.warn("kv events of another worker", "error", wrong)
			f.clear(kvstate.WorkerDomain)
			f.clear(kvstate.CacheOwnerDomain)
			f.markLost()
		}
		f.agent.PublisherError = wrong
		return false
	}
	if f.topic == nil {
		f.topic = append([]byte{}, topic...)
	}
	if f.agent.PublisherError != "" { // from here on it is another engine
		f.agent.PublisherError = ""
		f.startOver(ctx)
	}
	return true
}
