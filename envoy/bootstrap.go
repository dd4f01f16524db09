package envoy

import (
	"fmt"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// bufferSlack is added to the longest body for the limit of Envoy's buffers in
// buffered mode, so that it is Mooring that refuses a body just over its limit.
const bufferSlack = 64 << 10

// streamingBuffer is how much of one connection Envoy holds in the other modes.
const streamingBuffer = 1 << 20

// Bootstrap returns Envoy's whole configuration, or everything that is wrong
// with cfg.
func Bootstrap(cfg Config) (*bootstrapv3.Bootstrap, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	clusters, err := makeClusters(cfg)
	if err != nil {
		return nil, err
	}
	listeners, err := makeListeners(cfg)
	if err != nil {
		return nil, err
	}
	admin, err := makeAdmin(cfg.AdminAddress)
	if err != nil {
		return nil, err
	}
	return &bootstrapv3.Bootstrap{
		// The access log service is told who speaks.
		Node:            &corev3.Node{Id: "mooring-envoy", Cluster: "mooring"},
		Admin:           admin,
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Listeners: listeners, Clusters: clusters},
	}, nil
}

// makeAdmin returns nil for no admin API.
func makeAdmin(address string) (*bootstrapv3.Admin, error) {
	if address == "" {
		return nil, nil
	}
	addr, err := makeListenAddress(address)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	return &bootstrapv3.Admin{Address: addr}, nil
}

// moorings returns the distinct addresses of Mooring in the order of their
// listeners, and the name of each one's cluster.
func moorings(cfg Config) (addresses []string, cluster map[string]string) {
	cluster = make(map[string]string, len(cfg.Listeners))
	for _, l := range cfg.Listeners {
		if _, known := cluster[l.ExtProc]; !known {
			cluster[l.ExtProc] = mooringCluster(len(addresses))
			addresses = append(addresses, l.ExtProc)
		}
	}
	return addresses, cluster
}

func makeClusters(cfg Config) ([]*clusterv3.Cluster, error) {
	var clusters []*clusterv3.Cluster
	addresses, name := moorings(cfg)
	for _, address := range addresses {
		c, err := makeMooringCluster(name[address], address, cfg)
		if err != nil {
			return nil, fmt.Errorf("mooring's address: %w", err)
		}
		clusters = append(clusters, c)
	}
	workers, err := makeWorkersCluster(cfg)
	if err != nil {
		return nil, err
	}
	return append(clusters, workers), nil
}

func makeListeners(cfg Config) ([]*listenerv3.Listener, error) {
	_, cluster := moorings(cfg)
	var listeners []*listenerv3.Listener
	for _, l := range cfg.Listeners {
		made, err := makeListener(l, cluster[l.ExtProc], cfg)
		if err != nil {
			return nil, fmt.Errorf("listener %s: %w", l.Name, err)
		}
		listeners = append(listeners, made)
	}
	return listeners, nil
}

func makeListener(l Listener, cluster string, cfg Config) (*listenerv3.Listener, error) {
	address, err := makeListenAddress(l.Address)
	if err != nil {
		return nil, err
	}
	manager, err := makeManager(l.Name, cluster, cfg)
	if err != nil {
		return nil, err
	}
	packed, err := makeAny(manager)
	if err != nil {
		return nil, err
	}
	return &listenerv3.Listener{
		Name:    l.Name,
		Address: address,
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed},
		}}}},
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(bufferLimit(cfg)),
	}, nil
}

// bufferLimit is how many bytes of a connection Envoy holds. A body that is to
// be buffered whole must fit, or Envoy answers 413 by itself.
func bufferLimit(cfg Config) uint32 {
	if cfg.BodyMode != Buffered {
		return streamingBuffer
	}
	return max(streamingBuffer, uint32(cfg.MaxBodyBytes+bufferSlack))
}
