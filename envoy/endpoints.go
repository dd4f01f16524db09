package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"mooring/internal/fleet"
)

// Endpoints returns what Envoy is told of the workers: every one in the view, in
// whatever state, each address once, ordered. Who may be picked is Mooring's to
// decide; Envoy must know a worker before its first pick and until its last
// request has gone out, so the unhealthy, the draining and the vanished are in.
//
// An address that is not ip:port is left out: Envoy would refuse the whole
// list for it.
func Endpoints(view *fleet.View) *endpointv3.ClusterLoadAssignment {
	var known []netip.AddrPort
	for _, w := range view.Workers() {
		a, err := netip.ParseAddrPort(w.Address)
		if err != nil || a.Addr().Zone() != "" || a.Port() == 0 {
			continue
		}
		known = append(known, a)
	}
	slices.SortFunc(known, netip.AddrPort.Compare)
	known = slices.Compact(known)
	hosts := make([]*endpointv3.LbEndpoint, len(known))
	for i, a := range known {
		hosts[i] = makeEndpoint(makeSocketAddress(a.Addr().String(), a.Port()))
	}
	assignment := &endpointv3.ClusterLoadAssignment{ClusterName: WorkersCluster}
	if len(hosts) > 0 {
		assignment.Endpoints = []*endpointv3.LocalityLbEndpoints{{Locality: &corev3.Locality{}, LbEndpoints: hosts}}
	}
	return assignment
}

// endpointsYAML returns the content of the endpoints file. Its version is that
// of its content: equal views give equal bytes.
func endpointsYAML(view *fleet.View) ([]byte, error) {
	assignment := Endpoints(view)
	resource, err := makeAny(assignment)
	if err != nil {
		return nil, err
	}
	return toYAML(&discoveryv3.DiscoveryResponse{
		VersionInfo: versionOf(resource),
		Resources:   []*anypb.Any{resource},
		TypeUrl:     "type.googleapis.com/" + string(proto.MessageName(assignment)),
	})
}

func versionOf(resource *anypb.Any) string {
	sum := sha256.Sum256(resource.GetValue())
	return hex.EncodeToString(sum[:8])
}
