package envoy

import (
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
)

// LogName is the name of the access log by which Mooring learns how requests
// ended.
const LogName = "mooring"

// makeAccessLog sends an entry to Mooring for every request, however it ended.
// The entry carries the request's dynamic metadata, so also what Mooring said
// of its pick.
func makeAccessLog(cluster string) (*accesslogv3.AccessLog, error) {
	packed, err := makeAny(&grpclogv3.HttpGrpcAccessLogConfig{CommonConfig: &grpclogv3.CommonGrpcAccessLogConfig{
		LogName:             LogName,
		TransportApiVersion: corev3.ApiVersion_V3,
		GrpcService:         makeLogService(cluster),
		// Each entry goes out at once: load figures would lag otherwise.
		BufferSizeBytes:     number(0),
		BufferFlushInterval: seconds(time.Second),
	}})
	if err != nil {
		return nil, err
	}
	return &accesslogv3.AccessLog{
		Name:       "envoy.access_loggers.http_grpc",
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed},
	}, nil
}

func makeLogService(cluster string) *corev3.GrpcService {
	return &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
		EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster},
	}}
}
