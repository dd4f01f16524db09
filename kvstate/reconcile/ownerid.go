package reconcile

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"mooring/internal/fleet"
	"mooring/kvstate"
)

// eventHashFormat is the version of block hashes in events.
const eventHashFormat = 1

// configuredOwner derives the cache owner of one rank of a configured worker, whose
// blocks have so many tokens (0: not configured). All of it is derived by default:
// nobody named the slot, so it lasts as long as the worker's id. The same
// configuration gives the same owner on every replica.
func configuredOwner(w *fleet.Worker, rank uint32, blockSize int) kvstate.CacheOwnerID {
	p := w.Home()
	return kvstate.CacheOwnerID{
		Pool: kvstate.PoolID{
			IndexerDomain: kvstate.IndexerDomainID{
				CacheSemantics: kvstate.DefaultCacheSemantics(p.Model, uint32(blockSize), eventHashFormat),
				RoutingScope:   kvstate.DefaultRoutingScope(configuredEndpoint(p)),
			},
			DC: kvstate.DeriveDC("local"),
		},
		Slot: kvstate.DefaultStableDPSlot(w.ID.String(), strconv.FormatUint(uint64(rank), 10)),
	}
}

// configuredEndpoint names what a partition's workers serve.
func configuredEndpoint(p fleet.Partition) kvstate.EndpointID {
	return kvstate.EndpointID{Namespace: "mooring", Component: p.Group, Name: p.Model}
}

// rankEndpoint returns the ZeroMQ endpoint of a rank, whose port is that of rank 0
// plus the rank. "" stays "".
func rankEndpoint(endpoint string, rank uint32) (string, error) {
	if endpoint == "" || rank == 0 {
		return endpoint, nil
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(endpoint, "tcp://"))
	if err != nil {
		return "", fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n+uint64(rank) > 65535 {
		return "", fmt.Errorf("endpoint %q has no port for rank %d", endpoint, rank)
	}
	return "tcp://" + net.JoinHostPort(host, strconv.FormatUint(n+uint64(rank), 10)), nil
}
