package envoy_test

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	processorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Edits of a generated configuration, to learn what Envoy does with others.

// repack changes a packed message in place.
func repack[M proto.Message](packed *anypb.Any, m M, change func(M)) {
	if err := packed.UnmarshalTo(m); err != nil {
		panic(err)
	}
	change(m)
	if err := packed.MarshalFrom(m); err != nil {
		panic(err)
	}
}

func editManager(b *bootstrapv3.Bootstrap, change func(*managerv3.HttpConnectionManager)) {
	packed := b.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig()
	repack(packed, new(managerv3.HttpConnectionManager), change)
}

func editProcessor(b *bootstrapv3.Bootstrap, change func(*processorv3.ExternalProcessor)) {
	editManager(b, func(m *managerv3.HttpConnectionManager) {
		repack(m.GetHttpFilters()[0].GetTypedConfig(), new(processorv3.ExternalProcessor), change)
	})
}

func editRoute(b *bootstrapv3.Bootstrap, change func(*routev3.VirtualHost, *routev3.RouteAction)) {
	editManager(b, func(m *managerv3.HttpConnectionManager) {
		host := m.GetRouteConfig().GetVirtualHosts()[0]
		change(host, host.GetRoutes()[0].GetRoute())
	})
}

// tellDetails puts the response code details into a header of every response.
func tellDetails(b *bootstrapv3.Bootstrap) {
	editRoute(b, func(host *routev3.VirtualHost, _ *routev3.RouteAction) {
		host.ResponseHeadersToAdd = append(host.ResponseHeadersToAdd, &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: "x-details", Value: "%RESPONSE_CODE_DETAILS%"},
		})
	})
}

// switchFlag turns one of Envoy's runtime flags on or off.
func switchFlag(b *bootstrapv3.Bootstrap, flag string, on bool) {
	layer, err := structpb.NewStruct(map[string]any{flag: on})
	if err != nil {
		panic(err)
	}
	b.LayeredRuntime = &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
		Name: "test", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: layer},
	}}}
}

// dropBreakers puts the circuit breakers of a cluster back to Envoy's defaults.
func dropBreakers(b *bootstrapv3.Bootstrap, cluster string) {
	for _, c := range b.GetStaticResources().GetClusters() {
		if c.GetName() == cluster {
			c.CircuitBreakers = nil
			return
		}
	}
	panic("no cluster " + cluster)
}
