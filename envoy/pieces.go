package envoy

import (
	"errors"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
)

// BootstrapYAML returns Bootstrap's result as YAML, to be given to `envoy -c`.
func BootstrapYAML(cfg Config) ([]byte, error) {
	b, err := Bootstrap(cfg)
	if err != nil {
		return nil, err
	}
	where := "Made by `extproc envoy`, for Envoy 1.40 or newer."
	if cfg.Attachment == OverrideHost {
		where += "\nStart Mooring first: it writes the endpoints file, which must exist when Envoy starts."
	}
	return join(piece{b, where})
}

// FilterYAML returns what a listener that exists needs: keys of its HTTP
// connection manager and of its route, for the Mooring of cfg's first listener.
// Comments say where each goes.
func FilterYAML(cfg Config) ([]byte, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	manager, err := makeManager(cfg.Listeners[0].Name, mooringCluster(0), cfg)
	if err != nil {
		return nil, err
	}
	inManager := &managerv3.HttpConnectionManager{
		HttpFilters:       manager.HttpFilters[:1],
		AccessLog:         manager.AccessLog,
		LocalReplyConfig:  manager.LocalReplyConfig,
		RequestTimeout:    manager.RequestTimeout,
		StreamIdleTimeout: manager.StreamIdleTimeout,
	}
	host := makeVirtualHost(cfg)
	inHost := &routev3.VirtualHost{
		Routes:                  host.Routes,
		ResponseHeadersToAdd:    host.ResponseHeadersToAdd,
		ResponseHeadersToRemove: host.ResponseHeadersToRemove,
	}
	where := "In the HTTP connection manager of your listener: put the filter into http_filters,\n" +
		"right before envoy.filters.http.router, and merge the other keys. Without the access\n" +
		"log Mooring does not learn when a response has ended."
	if cfg.BodyMode == Buffered {
		where += "\nBodies are buffered: the listener's per_connection_buffer_limit_bytes and, for HTTP/2,\n" +
			"http2_protocol_options.initial_stream_window_size must hold a whole one."
	}
	return join(
		piece{inManager, where},
		piece{inHost, "In the virtual host that serves the workers. The route may be narrower than \"/\";\n" +
			"it must have no retry_policy, and the timeout must stay off."},
	)
}

// ClusterYAML returns the clusters that FilterYAML's pieces refer to.
func ClusterYAML(cfg Config) ([]byte, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.Listeners = cfg.Listeners[:1]
	clusters, err := makeClusters(cfg)
	if err != nil {
		return nil, err
	}
	where := "In static_resources of your bootstrap: add these to clusters.\n" +
		"The endpoints file and the TLS files are read on Envoy's machine."
	if cfg.Attachment == OverrideHost {
		where += "\nFor endpoints from a file Envoy demands that the bootstrap names it, as in\n" +
			"node: {id: envoy, cluster: gateway}; and the file must exist when Envoy starts, so\n" +
			"start Mooring first."
	}
	return join(piece{&bootstrapv3.Bootstrap_StaticResources{Clusters: clusters}, where})
}

// piece is a part of a message that the reader pastes, and where to.
type piece struct {
	part  proto.Message
	where string
}

// join prints the pieces as one document: the keys of the first, then those of
// the next, each group under its comment.
func join(pieces ...piece) ([]byte, error) {
	all := &yaml.Node{Kind: yaml.MappingNode}
	for _, p := range pieces {
		node, err := toNode(p.part)
		if err != nil {
			return nil, err
		}
		if len(node.Content) == 0 {
			return nil, errors.New("print yaml: a piece is empty")
		}
		node.Content[0].HeadComment = p.where
		all.Content = append(all.Content, node.Content...)
	}
	return encode(all)
}
