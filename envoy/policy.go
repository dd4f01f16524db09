package envoy

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	overridev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/override_host/v3"
	roundrobinv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	subsetv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/subset/v3"
	"google.golang.org/protobuf/proto"
)

// neverSet is the metadata key by which the fallback's subsets are told apart.
// No endpoint has it, so there is no subset.
const neverSet = "mooring.never-set"

// makeOverrideHost takes the host from the destination's metadata, and from
// nowhere else: override_host reads several sources as one list, and a header
// among them could be a client's.
//
// override_host hands everything else (no address, an address that is not an
// endpoint, a second attempt) to its fallback. The fallback here has no subset
// that could match and may not fall back itself: it never yields a host.
func makeOverrideHost() (*clusterv3.LoadBalancingPolicy, error) {
	leaf, err := makePolicy("envoy.load_balancing_policies.round_robin", &roundrobinv3.RoundRobin{})
	if err != nil {
		return nil, err
	}
	nobody, err := makePolicy("envoy.load_balancing_policies.subset", &subsetv3.Subset{
		FallbackPolicy:  subsetv3.Subset_NO_FALLBACK,
		SubsetSelectors: []*subsetv3.Subset_LbSubsetSelector{{Keys: []string{neverSet}}},
		SubsetLbPolicy:  leaf,
	})
	if err != nil {
		return nil, err
	}
	return makePolicy("envoy.load_balancing_policies.override_host", &overridev3.OverrideHost{
		OverrideHostSources: []*overridev3.OverrideHost_OverrideHostSource{{Metadata: makeMetadataKey(destinationKey)}},
		SelectedHostKey:     makeMetadataKey(servedKey),
		FallbackPolicy:      nobody,
	})
}

func makePolicy(name string, config proto.Message) (*clusterv3.LoadBalancingPolicy, error) {
	packed, err := makeAny(config)
	if err != nil {
		return nil, err
	}
	return &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{{
		TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: name, TypedConfig: packed},
	}}}, nil
}
