package discovery

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"mooring/internal/fleet"
)

// Spec is one worker as a source lists it. Update copies what it keeps.
type Spec struct {
	Address  string         // as configured: "ip:port", "[v6]:port" or "name:port"
	Models   []string       // none: fleet.DefaultName
	Adapters []string       // further model names, of the first model's partition
	Group    string         // "": fleet.DefaultName
	Ranks    uint32         // 0: 1
	ID       fleet.WorkerID // 0: fleet.DeriveWorkerID of Address

	Drain bool // takes no new sessions and no next turns

	KVEvents  string // see fleet.Worker
	KVReplay  string
	BlockSize int
}

// listing is a Spec that was checked, with its defaults filled in. It shares
// no memory with the source and is never changed.
type listing struct {
	Spec
	place   place
	doubted bool // the source lists it no more, which is not believed yet
}

// place is where a worker's configured address points.
type place struct {
	ip   netip.Addr // not valid: host is a name
	host string     // "" if ip is valid
	port uint16
}

func newListing(s Spec) (listing, error) {
	p, err := parsePlace(s.Address)
	if err != nil {
		return listing{}, err
	}
	s.Models, s.Adapters = slices.Clone(s.Models), slices.Clone(s.Adapters)
	if len(s.Models) == 0 {
		s.Models = []string{fleet.DefaultName}
	}
	if s.Group == "" {
		s.Group = fleet.DefaultName
	}
	if s.Ranks == 0 {
		s.Ranks = 1
	}
	if s.ID == 0 {
		s.ID = fleet.DeriveWorkerID(s.Address)
	}
	return listing{Spec: s, place: p}, nil
}

func (l listing) equal(m listing) bool {
	return l.Address == m.Address && l.Group == m.Group && l.Ranks == m.Ranks && l.ID == m.ID && l.Drain == m.Drain &&
		l.KVEvents == m.KVEvents && l.KVReplay == m.KVReplay && l.BlockSize == m.BlockSize && l.doubted == m.doubted &&
		slices.Equal(l.Models, m.Models) && slices.Equal(l.Adapters, m.Adapters)
}

// parsePlace reads a configured address. An IPv4-mapped IPv6 address is the
// IPv4 address, so that one worker has one spelling.
func parsePlace(address string) (place, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return place{}, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	switch {
	case err != nil || port == 0:
		return place{}, fmt.Errorf("port %q is not a number from 1 to 65535", portText)
	case host == "":
		return place{}, errors.New("no host")
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return place{host: host, port: uint16(port)}, nil
	}
	if !isOneMachine(ip) {
		return place{}, fmt.Errorf("%s is no address of one machine", host)
	}
	return place{ip: ip.Unmap(), port: uint16(port)}, nil
}

// isOneMachine reports whether ip can be a destination. A zone means something
// else on every machine.
func isOneMachine(ip netip.Addr) bool {
	if !ip.IsValid() || ip.Zone() != "" {
		return false
	}
	ip = ip.Unmap()
	return !ip.IsUnspecified() && !ip.IsMulticast()
}

// at returns the destination that ip and the configured port make.
func (p place) at(ip netip.Addr) string { return netip.AddrPortFrom(ip.Unmap(), p.port).String() }

func (p place) isName() bool { return !p.ip.IsValid() }
