package envoy

import (
	"path/filepath"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// WorkersCluster is the name of the cluster of all workers, also in the
// endpoints file.
const WorkersCluster = "mooring_workers"

// The metadata by which Envoy is told the destination; the names are those of
// the Gateway API's endpoint picker protocol.
const (
	destinationNamespace = "envoy.lb"
	destinationKey       = "x-gateway-destination-endpoint"
	servedKey            = "x-gateway-destination-endpoint-served"
)

const (
	// breaker is a ceiling that is never meant to be met: Envoy's default of
	// 1024 concurrent requests is a few minutes of long generations.
	breaker = 1_000_000
	// mooringConnectTimeout is short: Mooring is near, and the attempt is
	// repeated (makeGrpcService).
	mooringConnectTimeout = time.Second
	// workerConnectTimeout leaves room for one lost SYN (sent again after 1 s):
	// the attempt is not repeated.
	workerConnectTimeout = 3 * time.Second
	// workerIdleTimeout is below the 5 s after which uvicorn, which vLLM and
	// SGLang run on, closes an idle connection: a request that Envoy puts on it
	// in that moment would be lost, and there is no retry.
	workerIdleTimeout = 4 * time.Second
	// pingInterval and pingTimeout find a Mooring that hangs. In full duplex
	// Envoy has no timer of its own for its answers. gRPC servers allow one
	// ping in 10 s.
	pingInterval = 15 * time.Second
	pingTimeout  = 5 * time.Second
	// streamWindow keeps one stream that is not read from eating the
	// connection's window of 24 MiB, which all streams share.
	streamWindow     = 1 << 20
	connectionWindow = 24 << 20
)

// mooringCluster is the name of the cluster of the i-th distinct Mooring.
func mooringCluster(i int) string {
	if i == 0 {
		return "mooring"
	}
	return "mooring_" + strconv.Itoa(i+1)
}

func makeMooringCluster(name, address string, cfg Config) (*clusterv3.Cluster, error) {
	addr, named, err := makePeerAddress(address)
	if err != nil {
		return nil, err
	}
	options, err := makeMooringHTTPOptions()
	if err != nil {
		return nil, err
	}
	socket, err := makeTransportSocket(cfg.TLS)
	if err != nil {
		return nil, err
	}
	kind := clusterv3.Cluster_STATIC
	if named {
		kind = clusterv3.Cluster_STRICT_DNS
	}
	return &clusterv3.Cluster{
		Name:                          name,
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: kind},
		ConnectTimeout:                seconds(mooringConnectTimeout),
		CircuitBreakers:               makeCircuitBreakers(),
		TypedExtensionProtocolOptions: options,
		TransportSocket:               socket,
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints:   []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{makeEndpoint(addr)}}},
		},
	}, nil
}

func makeWorkersCluster(cfg Config) (*clusterv3.Cluster, error) {
	options, err := makeWorkerHTTPOptions()
	if err != nil {
		return nil, err
	}
	c := &clusterv3.Cluster{
		Name:                          WorkersCluster,
		ConnectTimeout:                seconds(workerConnectTimeout),
		CircuitBreakers:               makeCircuitBreakers(),
		TypedExtensionProtocolOptions: options,
	}
	if cfg.Attachment == OriginalDst {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		c.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{
			MetadataKey: makeMetadataKey(destinationKey),
		}}
		return c, nil
	}
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
	c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{ServiceName: WorkersCluster, EdsConfig: makeEndpointsSource(cfg.EndpointsFile)}
	c.LoadBalancingPolicy, err = makeOverrideHost()
	return c, err
}

// makeEndpointsSource watches the directory: a rename into it is seen, a write
// to the file in place is not.
func makeEndpointsSource(path string) *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion: corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{
			Path:             path,
			WatchedDirectory: &corev3.WatchedDirectory{Path: filepath.Dir(path)},
		}},
	}
}

func makeEndpoint(address *corev3.Address) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
		Endpoint: &endpointv3.Endpoint{Address: address},
	}}
}

func makeMetadataKey(field string) *metadatav3.MetadataKey {
	return &metadatav3.MetadataKey{
		Key:  destinationNamespace,
		Path: []*metadatav3.MetadataKey_PathSegment{{Segment: &metadatav3.MetadataKey_PathSegment_Key{Key: field}}},
	}
}

func makeCircuitBreakers() *clusterv3.CircuitBreakers {
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections: number(breaker), MaxPendingRequests: number(breaker), MaxRequests: number(breaker), MaxRetries: number(breaker),
	}}}
}

func makeMooringHTTPOptions() (map[string]*anypb.Any, error) {
	return makeHTTPOptions(&upstreamsv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
						InitialStreamWindowSize:     number(streamWindow),
						InitialConnectionWindowSize: number(connectionWindow),
						ConnectionKeepalive: &corev3.KeepaliveSettings{
							Interval: seconds(pingInterval), Timeout: seconds(pingTimeout),
						},
					},
				},
			},
		},
	})
}

func makeWorkerHTTPOptions() (map[string]*anypb.Any, error) {
	return makeHTTPOptions(&upstreamsv3.HttpProtocolOptions{
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{IdleTimeout: seconds(workerIdleTimeout)},
		UpstreamProtocolOptions: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{
					HttpProtocolOptions: &corev3.Http1ProtocolOptions{},
				},
			},
		},
	})
}

func makeHTTPOptions(o *upstreamsv3.HttpProtocolOptions) (map[string]*anypb.Any, error) {
	packed, err := makeAny(o)
	if err != nil {
		return nil, err
	}
	return map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": packed}, nil
}
