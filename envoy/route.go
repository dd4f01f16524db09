package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The response headers that tell a client its worker and why, with Expose.
const (
	workerHeader = "x-mooring-worker"
	reasonHeader = "x-mooring-reason"
)

func makeRoutes(cfg Config) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name:         "mooring",
		VirtualHosts: []*routev3.VirtualHost{makeVirtualHost(cfg)},
	}
}

func makeVirtualHost(cfg Config) *routev3.VirtualHost {
	v := &routev3.VirtualHost{
		Name:    "all",
		Domains: []string{"*"},
		Routes: []*routev3.Route{{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_Route{Route: makeWorkersRoute()},
		}},
		// Removed first, added afterwards.
		ResponseHeadersToRemove: []string{workerHeader, reasonHeader},
	}
	if cfg.Expose {
		v.ResponseHeadersToAdd = []*corev3.HeaderValueOption{
			makeExposedHeader(workerHeader, "worker"), makeExposedHeader(reasonHeader, "reason"),
		}
	}
	return v
}

// makeWorkersRoute has no retry policy: a second attempt would not go to the
// worker that was picked. Its timeout is off, since a generation takes as long
// as it takes; the default would cut it after 15 s.
func makeWorkersRoute() *routev3.RouteAction {
	return &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: WorkersCluster},
		Timeout:          durationpb.New(0),
	}
}

func makeExposedHeader(header, field string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: header, Value: "%DYNAMIC_METADATA(" + metadataNamespace + ":" + field + ")%"},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
