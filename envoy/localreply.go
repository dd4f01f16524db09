package envoy

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// ownReply is what Envoy says by itself, without a worker and without Mooring.
type ownReply struct {
	when    string // CEL, over Envoy's attributes
	class   string // OpenAI's type of the error
	code    string
	message string // fixed: Envoy's own texts name addresses
}

// ownReplies are told apart in this order.
func ownReplies() []ownReply {
	return []ownReply{
		{"response.code == 413", "invalid_request_error", "too_large", "the request's body is longer than this gateway takes"},
		{"response.code == 408 || response.code == 504", "service_unavailable", "timeout", "the request took too long"},
		{"response.code == 503", "service_unavailable", "unavailable", "Mooring, or the worker it chose, cannot be reached now"},
		{"response.code >= 500", "service_unavailable", "gateway_error", "the gateway could not serve the request"},
		{"response.code >= 400", "invalid_request_error", "bad_request", "the gateway refused the request"},
	}
}

// makeLocalReplies gives Envoy's own answers the shape that OpenAI's clients
// expect of an error. Mooring's answers, which are local replies to Envoy too,
// have that shape already: they are known by their response code details.
func makeLocalReplies() (*managerv3.LocalReplyConfig, error) {
	c := &managerv3.LocalReplyConfig{}
	for _, reply := range ownReplies() {
		filter, err := makeOwnReplyFilter(reply.when)
		if err != nil {
			return nil, err
		}
		c.Mappers = append(c.Mappers, &managerv3.ResponseMapper{Filter: filter, BodyFormatOverride: makeErrorFormat(reply)})
	}
	return c, nil
}

func makeOwnReplyFilter(when string) (*accesslogv3.AccessLogFilter, error) {
	packed, err := makeAny(&celv3.ExpressionFilter{
		Expression: `!response.code_details.startsWith("mooring_") && (` + when + `)`,
	})
	if err != nil {
		return nil, err
	}
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name:       "envoy.access_loggers.extension_filters.cel",
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{TypedConfig: packed},
		},
	}}, nil
}

func makeErrorFormat(reply ownReply) *corev3.SubstitutionFormatString {
	text := func(s string) *structpb.Value { return structpb.NewStringValue(s) }
	body := &structpb.Struct{Fields: map[string]*structpb.Value{"message": text(reply.message), "type": text(reply.class), "code": text(reply.code)}}
	return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_JsonFormat{
		JsonFormat: &structpb.Struct{Fields: map[string]*structpb.Value{"error": structpb.NewStructValue(body)}},
	}}
}
