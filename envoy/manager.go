package envoy

import (
	"math"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// maxStreams is how many requests one HTTP/2 connection of a client may
	// have open.
	maxStreams = 1024
	// clientStreamWindow and clientConnectionWindow bound what one client can
	// make Envoy hold while nobody reads it: of one request, and in all.
	clientStreamWindow     = 1 << 20
	clientConnectionWindow = 16 << 20
	// headersTimeout ends a connection that sends its headers drop by drop.
	headersTimeout = 30 * time.Second
	// uploadBase is what a client may take for a request besides the time that
	// its body needs at minUploadRate.
	uploadBase = time.Minute
)

// makeManager returns the HTTP connection manager of a listener whose requests
// are decided by the Mooring behind cluster.
func makeManager(listener, cluster string, cfg Config) (*managerv3.HttpConnectionManager, error) {
	filters, err := makeFilters(cluster, cfg)
	if err != nil {
		return nil, err
	}
	logs, err := makeAccessLogs(cluster, cfg)
	if err != nil {
		return nil, err
	}
	replies, err := makeLocalReplies()
	if err != nil {
		return nil, err
	}
	return &managerv3.HttpConnectionManager{
		CodecType:        managerv3.HttpConnectionManager_AUTO,
		StatPrefix:       listener,
		RouteSpecifier:   &managerv3.HttpConnectionManager_RouteConfig{RouteConfig: makeRoutes(cfg)},
		HttpFilters:      filters,
		AccessLog:        logs,
		LocalReplyConfig: replies,
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{
			// Names with underscores are legal and some clients use them; no
			// name of ours has one, and nothing here turns "_" into "-".
			HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_ALLOW,
		},
		Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			MaxConcurrentStreams:        number(maxStreams),
			InitialStreamWindowSize:     number(uploadWindow(cfg)),
			InitialConnectionWindowSize: number(max(clientConnectionWindow, uploadWindow(cfg))),
		},
		RequestHeadersTimeout: seconds(headersTimeout),
		RequestTimeout:        seconds(requestTimeout(cfg)),
		StreamIdleTimeout:     seconds(cfg.MaxRequestTime),
		// The client's address is the peer's, and what only a trusted proxy may
		// say (x-envoy-*) is removed from requests that come from outside.
		UseRemoteAddress: wrapperspb.Bool(true),
		// The request id is the client's if it sends one: people look for it.
		GenerateRequestId:         wrapperspb.Bool(true),
		PreserveExternalRequestId: true,
		UpgradeConfigs:            makeUpgrades(cfg),
	}, nil
}

// makeUpgrades lets websockets through, but not in buffered mode: the body of an
// upgraded request never ends, so Envoy would buffer until the client gave up.
// There it answers 403.
func makeUpgrades(cfg Config) []*managerv3.HttpConnectionManager_UpgradeConfig {
	if cfg.BodyMode == Buffered {
		return nil
	}
	return []*managerv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}}
}

// uploadWindow is how much of one request's body Envoy takes ahead. Over HTTP/2
// that is also what it buffers at most, whatever the listener's buffer limit: a
// body that is buffered whole must fit.
func uploadWindow(cfg Config) uint32 {
	if cfg.BodyMode == Buffered {
		return min(max(clientStreamWindow, bufferLimit(cfg)), math.MaxInt32)
	}
	return clientStreamWindow
}

// requestTimeout is how long a request may take until it has passed Mooring:
// its upload and, where Envoy keeps the body, the pick. In full duplex it ends
// once the whole body went to Mooring: from there on Mooring's own deadline
// counts. It also ends with the first byte of the response, so it cuts no
// generation, and it must not cut an upload that makes progress.
func requestTimeout(cfg Config) time.Duration {
	upload := time.Duration(cfg.MaxBodyBytes/minUploadRate) * time.Second
	return uploadBase + upload + messageTimeout(cfg)
}

func makeFilters(cluster string, cfg Config) ([]*managerv3.HttpFilter, error) {
	processor, err := makeFilter(FilterName, makeExternalProcessor(cluster, cfg))
	if err != nil {
		return nil, err
	}
	router, err := makeFilter("envoy.filters.http.router", &routerv3.Router{})
	if err != nil {
		return nil, err
	}
	return []*managerv3.HttpFilter{processor, router}, nil
}

func makeFilter(name string, config proto.Message) (*managerv3.HttpFilter, error) {
	packed, err := makeAny(config)
	if err != nil {
		return nil, err
	}
	return &managerv3.HttpFilter{Name: name, ConfigType: &managerv3.HttpFilter_TypedConfig{TypedConfig: packed}}, nil
}

// makeAccessLogs returns none if Mooring learns of the end from the stream.
func makeAccessLogs(cluster string, cfg Config) ([]*accesslogv3.AccessLog, error) {
	if cfg.End == Stream {
		return nil, nil
	}
	log, err := makeAccessLog(cluster)
	if err != nil {
		return nil, err
	}
	return []*accesslogv3.AccessLog{log}, nil
}
