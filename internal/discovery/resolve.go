package discovery

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// How names are looked up. Go's resolver does not tell for how long an answer
// holds.
const (
	maxLookups    = 32 // in flight
	lookupTimeout = 5 * time.Second
	lookupEvery   = 30 * time.Second
	lookupSooner  = 5 * time.Second // for a worker that is not well: its address may be what is wrong
)

var errNoAddress = errors.New("the name has no usable address")

// lookUp returns the address of a name and how many it has. Of several the
// lowest counts, IPv4 before IPv6, so that all replicas take the same.
func lookUp(ctx context.Context, resolve func(context.Context, string) ([]netip.Addr, error), host string) (netip.Addr, int, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := resolve(ctx, host)
	if err != nil {
		return netip.Addr{}, 0, err
	}
	var usable []netip.Addr
	for _, ip := range found {
		if isOneMachine(ip) {
			usable = append(usable, ip.Unmap())
		}
	}
	if len(usable) == 0 {
		return netip.Addr{}, 0, errNoAddress
	}
	slices.SortFunc(usable, netip.Addr.Compare)
	usable = slices.Compact(usable)
	return usable[0], len(usable), nil
}
