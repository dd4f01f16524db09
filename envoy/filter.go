package envoy

import (
	"time"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// FilterName is the name of the filter in Envoy's filter chain; per-route
// settings go by it.
const FilterName = "envoy.filters.http.ext_proc"

// metadataNamespace holds what Mooring says of a pick: replica, lease, worker
// and reason. It comes back in the access log.
const metadataNamespace = "mooring"

// maxMessage bounds what Envoy takes from Mooring in one gRPC message. Bodies
// come back in pieces of at most 62,000 bytes, or not at all.
const maxMessage = 1 << 20

// timerMargin is what Envoy allows Mooring beyond Mooring's own deadline, so
// that it is Mooring that answers, with its reason.
const timerMargin = time.Second

// minUploadRate is how slow, in bytes per second, a client may send a body of
// the greatest length before Envoy gives up on it.
const minUploadRate = 64 << 10

// mutableHeaders matches the headers that Mooring may set or remove: its own
// and Dynamo's on the way to the worker, and the two of its immediate responses,
// which fall under the same rule. Envoy ignores any other, and counts it in
// rejected_header_mutations.
//
// It is written short, not exact: Envoy refuses an expression whose RE2 program
// has more than 100 instructions, which an alternation of all the names has, and
// "." alone costs a dozen.
const mutableHeaders = "x-((gateway|mooring|dynamo|prefill|data)-[!-~]*|worker-instance-id|dp-rank)|content-type|retry-after"

func makeExternalProcessor(cluster string, cfg Config) *extprocv3.ExternalProcessor {
	p := &extprocv3.ExternalProcessor{
		StatPrefix:  "mooring",
		GrpcService: makeGrpcService(cluster),
		// Fail closed, and say so as what it is: the service is not available.
		FailureModeAllow:  false,
		StatusOnError:     &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		MessageTimeout:    seconds(messageTimeout(cfg)),
		ProcessingMode:    makeProcessingMode(cfg),
		RequestAttributes: []string{"request.id", "request.time"},
		MetadataOptions:   makeMetadataOptions(),
		MutationRules:     makeMutationRules(),
		// What Mooring sends back is the body byte for byte, so its length
		// stays true, and workers see it instead of a chunked body.
		AllowContentLengthHeader: true,
	}
	if cfg.BodyMode == HeadersOnly {
		// Lets Mooring ask for the body of a request whose headers do not
		// suffice, and for nothing else.
		p.AllowModeOverride = true
		wanted := makeProcessingMode(cfg)
		wanted.RequestBodyMode = extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED
		wanted.RequestTrailerMode = extprocv3.ProcessingMode_SEND
		p.AllowedOverrideModes = []*extprocv3.ProcessingMode{wanted}
	}
	return p
}

// makeProcessingMode says what Envoy sends to Mooring.
func makeProcessingMode(cfg Config) *extprocv3.ProcessingMode {
	m := &extprocv3.ProcessingMode{
		RequestHeaderMode:   extprocv3.ProcessingMode_SEND,
		RequestTrailerMode:  extprocv3.ProcessingMode_SKIP,
		ResponseHeaderMode:  extprocv3.ProcessingMode_SKIP,
		ResponseTrailerMode: extprocv3.ProcessingMode_SKIP,
	}
	switch cfg.BodyMode {
	case FullDuplex:
		m.RequestBodyMode = extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED
		m.RequestTrailerMode = extprocv3.ProcessingMode_SEND // demanded by the mode
	case Buffered:
		m.RequestBodyMode = extprocv3.ProcessingMode_BUFFERED
	case HeadersOnly:
		m.RequestBodyMode = extprocv3.ProcessingMode_NONE
	}
	if cfg.End == Stream {
		// Response headers say that the worker was reached; for the end, waiting
		// for trailers is enough: it keeps the stream open until the response
		// has ended, without one message for a token. What it does not tell is
		// whether it ended well; the bodies would, at one message for each piece.
		m.ResponseHeaderMode = extprocv3.ProcessingMode_SEND
		m.ResponseTrailerMode = extprocv3.ProcessingMode_SEND
	}
	return m
}

// messageTimeout is how long Envoy waits for one answer. In full duplex there
// is no such timer: there, pings find a Mooring that hangs and Mooring's own
// deadline a pick that does.
func messageTimeout(cfg Config) time.Duration { return cfg.Deadline + timerMargin }

// makeGrpcService tries again if the stream could not start, which happens while
// Mooring restarts: nothing has been decided then.
func makeGrpcService(cluster string) *corev3.GrpcService {
	return &corev3.GrpcService{
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
			ClusterName:             cluster,
			MaxReceiveMessageLength: number(maxMessage),
		}},
		RetryPolicy: &corev3.RetryPolicy{
			RetryOn:    "connect-failure,refused-stream,unavailable",
			NumRetries: number(2),
			RetryBackOff: &corev3.BackoffStrategy{
				BaseInterval: seconds(25 * time.Millisecond), MaxInterval: seconds(250 * time.Millisecond),
			},
		},
	}
}

// makeMetadataOptions names the namespaces that Mooring may write (all others
// are dropped without a word) and those that it is shown.
func makeMetadataOptions() *extprocv3.MetadataOptions {
	return &extprocv3.MetadataOptions{
		ReceivingNamespaces:  &extprocv3.MetadataOptions_MetadataNamespaces{Untyped: []string{destinationNamespace, metadataNamespace}},
		ForwardingNamespaces: &extprocv3.MetadataOptions_MetadataNamespaces{Untyped: []string{destinationNamespace, "envoy.lb.subset_hint"}},
	}
}

func makeMutationRules() *mutationv3.HeaderMutationRules {
	return &mutationv3.HeaderMutationRules{
		DisallowAll: wrapperspb.Bool(true),
		// Envoy matches the whole name.
		AllowExpression: &matcherv3.RegexMatcher{Regex: mutableHeaders},
	}
}
